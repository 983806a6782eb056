"""Sizes in memory, written for people."""

from __future__ import annotations

__all__ = ["size"]

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


def size(number: int) -> str:
    """Write a number of bytes in the unit that leaves few digits.

    Examples
    --------
    >>> size(1000), size(3 << 29)
    ('1000 B', '1.5 GiB')
    """
    power = min(max(0, number.bit_length() - 1) // 10, len(_UNITS) - 1)
    return f"{number / 2 ** (10 * power):,.1f} {_UNITS[power]}" if power else f"{number} B"
