"""Columns that a transfer does not use, and the reasons."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vista_spark.errors import ColumnError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from udfs.driver import TextNumbers

__all__ = ["text_feature_error", "unused_columns"]

_MOST_LISTED = 8


def unused_columns(texts: Sequence[TextNumbers], kinds: Mapping[str, str]) -> list[str]:
    """Describe the columns that are not structured features, those with numbers among texts first.

    Parameters
    ----------
    texts : sequence of TextNumbers
        Text columns.
    kinds : mapping of str to str
        Types of the other columns, by name.

    Examples
    --------
    >>> from udfs.driver import TextNumbers
    >>> unused_columns([TextNumbers("price", 9, 0, 1, None, "cheap", 2)], {"day": "date"})
    ["not used: 'price' is text because of 'cheap' (1 of 10 values): correct it, or name it in --categories", \
"not used: 'day' (date)"]
    """
    almost = [each for each in texts if each.numbers]
    rest = {each.name: each.reason for each in texts if not each.numbers} | dict(kinds)
    notes = [
        f"not used: {each.name!r} is {each.reason}: correct it, or name it in --categories"
        for each in almost[:_MOST_LISTED]
    ]
    listed = [f"{name!r} ({why})" for name, why in rest.items()][:_MOST_LISTED]
    more = max(0, len(almost) - _MOST_LISTED) + max(0, len(rest) - _MOST_LISTED)
    if listed or more:
        listed += [f"{more} more"] if more else []
        hint = "; --categories indexes texts" if any(not each.numbers for each in texts) else ""
        notes.append(f"not used: {', '.join(listed)}{hint}")
    return notes


def text_feature_error(counts: TextNumbers) -> ColumnError:
    """Make the error about a structured feature that is text."""
    name = counts.name
    correct = "Correct the value, or " if counts.numbers else ""
    return ColumnError(
        f"--features must be numbers, got {name!r}: {name!r} is {counts.reason}. {correct}--categories {name} "
        "indexes it."
    )
