"""Sizes of memory as Spark writes them."""

from __future__ import annotations

import re

from vista_spark.errors import InvalidArgumentError

__all__ = ["memory"]

_UNITS = {"b": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40, "p": 2**50}


def memory(text: str, unit: str = "b") -> int:
    """Bytes of ``"32g"``, ``"512m"`` or a number, in Spark's notation: powers of 1024.

    Parameters
    ----------
    text : str
    unit : {"b", "k", "m", "g", "t", "p"}
        Of a number alone.

    Raises
    ------
    InvalidArgumentError
        Something else.

    Examples
    --------
    >>> memory("2g"), memory("384", "m")
    (2147483648, 402653184)
    """
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([bkmgtp]?)(?:i?b)?", text.strip().lower())
    if match is None:
        raise InvalidArgumentError(f"{text!r} is not a memory size: write 32g, 512m or a number of bytes")
    return int(float(match[1]) * _UNITS[match[2] or unit])
