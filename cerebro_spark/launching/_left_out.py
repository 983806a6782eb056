"""Reasons for which rows are left out, in the words of a launch's table."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

__all__ = ["explain_reasons", "reason_names"]

_NO_ROWS = "the DataFrame must have complete rows, got none"


def reason_names(columns: Sequence[str], read: Sequence[str], texts: Collection[str]) -> dict[str, str]:
    """Return the reasons of a built-in model's preparation, and what they mean for the columns of the table.

    Parameters
    ----------
    columns : sequence of str
        Feature columns of the table.
    read : sequence of str
        Feature columns that the model reads from the converted table.
    texts : collection of str
        Columns of the table that are strings.

    Examples
    --------
    >>> reason_names(["photo"], ["photo"], ["photo"])
    {"null in 'photo'": "file that is missing or cannot be read in 'photo'"}
    >>> reason_names(["text"], ["input_ids"], ["text"])
    {"null in 'input_ids'": "null in 'text'"}
    """
    if columns and list(columns) != list(read):
        return {f"null in {name!r}": f"null in {', '.join(map(repr, columns))}" for name in read}
    # The contents replace the paths, so that a file that cannot be read is a null.
    return {
        f"null in {name!r}": f"file that is missing or cannot be read in {name!r}" for name in read if name in texts
    }


def explain_reasons(text: str, names: Mapping[str, str]) -> str:
    """Replace the reasons in a text, such as the error of a preparation that leaves no row.

    Examples
    --------
    >>> explain_reasons("null in 'input_ids'", {"null in 'input_ids'": "null in 'text'"})
    "null in 'text'"
    """
    text = text.replace(_NO_ROWS, "table must have rows to train on, got none")
    for reason, name in names.items():
        text = text.replace(reason, name)
    return text
