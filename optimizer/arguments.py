"""Checks of arguments, with errors that name the argument, the requirement and the value."""

from __future__ import annotations

import math
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any

from optimizer.errors import InvalidArgumentError, nearest

if TYPE_CHECKING:
    from collections.abc import Collection

__all__ = ["choice_error", "one_of", "real", "whole", "whole_or_none"]


def whole(name: str, value: Any, least: int = 1, why: str = "") -> int:
    """Check a whole number of at least ``least``; ``why`` is the sentence that ends the error."""
    if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
        raise _refused(name, f"a whole number of at least {least}", value, why)
    return int(value)


def whole_or_none(name: str, value: Any, least: int = 1, why: str = "") -> int | None:
    """Check a whole number of at least ``least``, or None for no limit."""
    return None if value is None else whole(name, value, least, why)


def real(
    name: str, value: Any, least: float = -math.inf, most: float = math.inf, *, above: bool = False, why: str = ""
) -> float:
    """Check a finite number from ``least`` (or only above it) to ``most``."""
    number = math.nan if isinstance(value, bool) or not isinstance(value, Real) else float(value)
    if not math.isfinite(number) or not least <= number <= most or (above and number == least):
        raise _refused(name, f"a {_interval(least, most, above=above)}", value, why)
    return number


def one_of(name: str, value: Any, allowed: tuple[str, ...]) -> str:
    """Check a word of a few."""
    if value not in allowed:
        raise InvalidArgumentError(choice_error(name, value, allowed))
    return str(value)


def choice_error(name: str, value: Any, allowed: Collection[str]) -> str:
    """Return the message about a value that is not among a few words, with the nearest of them.

    >>> choice_error("mode", "mix", ("min", "max"))
    "mode must be one of min, max, got 'mix'; did you mean 'min'?"
    """
    hint = nearest(value, allowed) if isinstance(value, str) else ""
    return f"{name} must be one of {', '.join(allowed)}, got {value!r}{hint or '.'}"


def _interval(least: float, most: float, *, above: bool) -> str:
    """Describe the numbers from ``least`` to ``most``."""
    if least == -math.inf:
        return "finite number" if most == math.inf else f"number of at most {most:g}"
    if most == math.inf:
        return f"number above {least:g}" if above else f"number of at least {least:g}"
    return f"number above {least:g} and at most {most:g}" if above else f"number from {least:g} to {most:g}"


def _refused(name: str, requirement: str, value: Any, why: str) -> InvalidArgumentError:
    return InvalidArgumentError(f"{name} must be {requirement}, got {value!r}.{why and ' ' + why}")
