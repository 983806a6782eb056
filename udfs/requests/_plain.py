"""Results and progress as JSON that browsers read."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

__all__ = ["plain_json"]


def plain_json(value: Any) -> Any:
    """Return plain data with strings for numbers that JSON lacks, lists for tuples, and Python's own number types.

    Raises
    ------
    TypeError
        A value is not plain data.

    Examples
    --------
    >>> plain_json({"values": (0.5, float("nan"), float("-inf")), "class": None})
    {'values': [0.5, 'nan', '-inf'], 'class': None}
    """
    if value is None or isinstance(value, str | bool):
        return value
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else str(float(value))
    if isinstance(value, Mapping):
        return {str(key): plain_json(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain_json(each) for each in value]
    if hasattr(value, "tolist"):  # numbers and arrays of numpy
        return plain_json(value.tolist())
    raise TypeError(f"result must be plain data, got a {type(value).__name__}")
