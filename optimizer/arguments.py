"""Arguments, checked where they are given."""

from __future__ import annotations

import math
from numbers import Integral, Real
from typing import Any

from optimizer.errors import InvalidArgumentError, nearest

__all__ = ["one_of", "real", "whole", "whole_or_none"]


def whole(name: str, value: Any, least: int = 1, why: str = "") -> int:
    """Check a whole number of at least ``least``; ``why`` ends the error's sentence."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise InvalidArgumentError(f"{name}={value!r}: a whole number, at least {least}{why and '; ' + why}")
    if value < least:
        raise InvalidArgumentError(f"{name}={value}: at least {least}{why and '; ' + why}")
    return int(value)


def whole_or_none(name: str, value: Any, least: int = 1, why: str = "") -> int | None:
    """Check a whole number of at least ``least``, or None for no limit."""
    return None if value is None else whole(name, value, least, why)


def real(
    name: str, value: Any, least: float = -math.inf, most: float = math.inf, *, above: bool = False, why: str = ""
) -> float:
    """Check a finite number from ``least`` (or only above it) to ``most``."""
    bounds = f"{'above' if above else 'from'} {least:g} to {most:g}" if most < math.inf else f"at least {least:g}"
    hint = f"a number{', ' + bounds if least > -math.inf else ''}{why and '; ' + why}"
    if isinstance(value, bool) or not isinstance(value, Real) or not math.isfinite(value):
        raise InvalidArgumentError(f"{name}={value!r}: {hint}")
    number = float(value)
    if not least <= number <= most or (above and number == least):
        raise InvalidArgumentError(f"{name}={number:g}: {hint}")
    return number


def one_of(name: str, value: Any, allowed: tuple[str, ...]) -> str:
    """Check a name of a few."""
    if value not in allowed:
        raise InvalidArgumentError(f"{name}={value!r}{nearest(str(value), allowed)}; one of: {', '.join(allowed)}")
    return str(value)
