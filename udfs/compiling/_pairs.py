"""Rows of names with numbers or texts, as names with numbers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from numbers import Real

__all__ = ["pairs_of"]


def pairs_of(row: object, separator: str, *, lists: bool) -> list[tuple[str, float]] | None:
    """Return the names of a row and their numbers. A text makes a separate name with the number 1.

    Parameters
    ----------
    row : mapping of str, or iterable of pairs
        Names with numbers or texts.
    separator : str
        Between a name and its text.
    lists : bool
        Whether a value may be several texts.

    Returns
    -------
    list of (str, float), or None
        ``None`` for a row that the library does not take.

    Examples
    --------
    >>> pairs_of({"city": "Oslo", "heads": 3}, "=", lists=False)
    [('city=Oslo', 1.0), ('heads', 3.0)]
    """
    if isinstance(row, str | bytes) or not isinstance(row, Iterable):
        return None
    pairs: list[tuple[str, float]] = []
    for pair in row.items() if isinstance(row, Mapping) else row:
        if not isinstance(pair, tuple | list) or len(pair) != 2:  # name and value
            return None
        name, value = pair
        texts = [value] if isinstance(value, str) else value
        if isinstance(value, Real) and isinstance(name, str):
            pairs.append((name, float(value)))
        elif isinstance(value, str) or (lists and _are_texts(value)):
            pairs += [(f"{name}{separator}{text}", 1.0) for text in texts]
        else:
            return None
    return pairs


def _are_texts(value: object) -> bool:
    if isinstance(value, bytes | Mapping) or not isinstance(value, Iterable):
        return False
    return all(isinstance(text, str) for text in value)
