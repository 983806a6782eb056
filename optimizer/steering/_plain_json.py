"""Check of JSON data that is safe to store and to send on."""

from __future__ import annotations

import math
from typing import Any

__all__ = ["is_plain_json"]

_DEEPEST = 50


def is_plain_json(value: Any, depth: int = _DEEPEST) -> bool:
    """Return True for JSON data with finite numbers, and with at most ``depth`` levels of lists and mappings.

    Examples
    --------
    >>> is_plain_json({"lr": [0.1, None]}), is_plain_json(float("nan")), is_plain_json([[]], depth=1)
    (True, False, False)
    """
    if value is None or isinstance(value, str | bool | int):
        return True
    if isinstance(value, float):
        return math.isfinite(value)
    if depth == 0:
        return False
    if isinstance(value, list):
        return all(is_plain_json(each, depth - 1) for each in value)
    return isinstance(value, dict) and all(
        isinstance(key, str) and is_plain_json(each, depth - 1) for key, each in value.items()
    )
