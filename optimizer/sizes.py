"""Sizes of memory and disk, written for people and read from them."""

from __future__ import annotations

import re

from optimizer.errors import InvalidArgumentError

__all__ = ["number_of_bytes", "size"]

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")
_LETTERS = {letter: 2 ** (10 * power) for power, letter in enumerate("bkmgtp")}


def size(number: int) -> str:
    """Write a number of bytes in the unit that leaves few digits.

    Examples
    --------
    >>> size(1000), size(3 << 29)
    ('1000 B', '1.5 GiB')
    """
    power = min(max(0, number.bit_length() - 1) // 10, len(_UNITS) - 1)
    return f"{number / 2 ** (10 * power):,.1f} {_UNITS[power]}" if power else f"{number} B"


def number_of_bytes(text: str, unit: str = "b") -> int:
    """Read ``"32g"``, ``"512m"`` or a number, in Spark's notation: powers of 1024.

    Parameters
    ----------
    text : str
        Number of bytes, with or without a unit: ``"2g"``, ``"512m"``.
    unit : {"b", "k", "m", "g", "t", "p"}
        Unit of a number that has none.

    Raises
    ------
    InvalidArgumentError
        Something else.

    Examples
    --------
    >>> number_of_bytes("2g"), number_of_bytes("384", "m")
    (2147483648, 402653184)
    """
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([bkmgtp]?)(?:i?b)?", text.strip().lower())
    if match is None:
        raise InvalidArgumentError(f"{text!r} is not a size: write 32g, 512m or a number of bytes")
    return int(float(match[1]) * _LETTERS[match[2] or unit])
