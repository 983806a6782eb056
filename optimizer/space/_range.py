"""Numeric domains of floats or integers, uniform or logarithmic."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from optimizer.space._condition import ALWAYS, Condition, Where, condition
from optimizer.space._errors import SpaceError
from optimizer.space._plain_values import Value, real, whole
from optimizer.space._scale import log_scaled
from optimizer.space._streams import below, share

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Range", "integer", "log_integer", "log_uniform", "uniform"]

Number = TypeVar("Number", int, float)
Kind = Literal["uniform", "log_uniform", "integer", "log_integer"]

# The 53 bits of a random float reach no more values.
_MOST_VALUES = 2**53

# Largest distance from a step, in steps, of a computed value such as 3 * 0.1.
_NEAR = Fraction(1, 10**9)


@dataclass(frozen=True)
class Range:
    """Numbers between two bounds, both included.

    ``step`` is None for continuous and logarithmic domains.
    """

    kind: Kind
    low: float
    high: float
    step: float | None = None
    where: Condition = ALWAYS

    @property
    def log(self) -> bool:
        """True if the scale is logarithmic."""
        return self.kind.startswith("log_")

    @property
    def integral(self) -> bool:
        """True if the values are integers."""
        return self.kind.endswith("integer")

    @cached_property
    def count(self) -> int | None:
        """Number of values; None if continuous."""
        if self.kind == "log_integer":
            return int(self.high - self.low) + 1
        return None if self.step is None else int((_exact(self.high) - _exact(self.low)) // _exact(self.step)) + 1

    @property
    def several(self) -> bool:
        """True, since the bounds differ."""
        return True

    def __repr__(self) -> str:
        step = "" if self.step is None or (self.kind == "integer" and self.step == 1) else f", step={self.step!r}"
        where = f", where={self.where!r}" if self.where else ""
        return f"{self.kind}({self.low!r}, {self.high!r}{step}{where})"

    def __str__(self) -> str:
        step = "" if self.step is None or (self.kind == "integer" and self.step == 1) else f" step {self.step!r}"
        return f"{self.kind} {self.low!r} .. {self.high!r}{step}"

    def draw(self, word: int) -> float:
        """Convert a random word to a value."""
        if self.count is not None and not self.log:
            return self._at(below(word, self.count))
        part = share(word)
        if self.kind == "uniform":
            return min(max(self.low * (1 - part) + self.high * part, self.low), self.high)
        if self.kind == "log_uniform":
            return log_scaled(self.low, self.high, Decimal(part))
        # Add half a unit on either side, so that the bounds are as likely as their neighbours.
        return self.nearest(log_scaled(self.low - 0.5, self.high + 0.5, Decimal(part)))

    def holds(self, value: Any) -> bool:
        """Return True if a value belongs to the domain."""
        if isinstance(value, bool) or not isinstance(value, int if self.integral else int | float):
            return False
        if not self.low <= value <= self.high:
            return False
        if self.step is None:
            return True
        steps = (_exact(value) - _exact(self.low)) / _exact(self.step)
        return abs(steps - round(steps)) <= _NEAR

    def nearest(self, value: float) -> float:
        """Return the value that is nearest to a number, within the bounds and on a step."""
        return min(max(value, self.low), self.high) if self.count is None else self._at(self._place(value))

    def moved(self, value: Any, factor: float) -> Value:
        """Multiply a value within the bounds; with steps, by at least one step."""
        target: float = min(max(value * factor, self.low), self.high)
        if self.count is None:
            return target
        before, after = self._place(value), self._place(target)
        if before == after:
            up = target > value or (target == value and factor > 1)
            after = min(max(after + (1 if up else -1), 0), self.count - 1)
        return self._at(after)

    def spread(self, points: int | None) -> list[Value]:
        """List the values of a grid; ``points`` values with both bounds for a domain without steps."""
        if self.count is not None and not self.log:
            return [self._at(place) for place in range(self.count)]
        if points is None:
            raise SpaceError(
                f"points must be the number of values of {self!r}, which has no steps, got None"
                + ("" if self.log else ": set points= or step=")
            )
        last = points - 1
        if self.log:
            between = [log_scaled(self.low, self.high, Decimal(place) / last) for place in range(points)]
        else:
            low, high = _exact(self.low), _exact(self.high)
            between = [float(low + (high - low) * place / last) for place in range(points)]
        return list(dict.fromkeys(self.nearest(value) if self.integral else value for value in between))

    def _place(self, value: float) -> int:
        step = 1 if self.step is None else self.step
        return min(max(round((_exact(value) - _exact(self.low)) / _exact(step)), 0), (self.count or 1) - 1)

    def _at(self, place: int) -> float:
        step = 1 if self.step is None else self.step
        value = _exact(self.low) + place * _exact(step)
        return int(value) if self.integral else float(value)


def uniform(low: float, high: float, step: float | None = None, *, where: Where | None = None) -> Range:
    """Return a domain of floats between two bounds with a uniform distribution.

    Parameters
    ----------
    low, high : float
        Bounds, both included.
    step : float, optional
        Distance between values: ``low``, ``low + step`` and so on up to ``high``, which is a value only if it is on a
        step. The sums are decimal: three steps of 0.1 are 0.3. By default every float is a value.
    where : mapping or callable, optional
        Condition under which the dimension is live; see :class:`Space`.

    Returns
    -------
    Range
        Domain for a :class:`Space`.

    Raises
    ------
    SpaceError
        The bounds are not finite, reversed or equal, or the step is not positive or beyond the range.

    Examples
    --------
    >>> uniform(0, 1, step=0.25)
    uniform(0.0, 1.0, step=0.25)
    """
    low, high = _bounds("uniform", low, high, real)
    if step is not None:
        step = _step(f"uniform({low!r}, {high!r})", real(step, "step of uniform"), low, high)
    return Range("uniform", low, high, step, condition(where))


def log_uniform(low: float, high: float, *, where: Where | None = None) -> Range:
    """Return a domain of floats between two bounds with a log-uniform distribution.

    Parameters
    ----------
    low, high : float
        Bounds above 0, both included. They are values, not exponents.
    where : mapping or callable, optional
        Condition under which the dimension is live; see :class:`Space`.

    Returns
    -------
    Range
        Domain for a :class:`Space`.

    Raises
    ------
    SpaceError
        The bounds are not finite, reversed, equal, 0 or negative.

    Examples
    --------
    >>> log_uniform(1e-5, 1e-1)
    log_uniform(1e-05, 0.1)
    """
    low, high = _bounds("log_uniform", low, high, real)
    if low <= 0:
        raise SpaceError(f"low must be above 0 for log_uniform, got {low!r}: bounds are values, not exponents")
    return Range("log_uniform", low, high, None, condition(where))


def integer(low: int, high: int, step: int = 1, *, where: Where | None = None) -> Range:
    """Return a domain of integers between two bounds with a uniform distribution.

    Parameters
    ----------
    low, high : int
        Bounds, both included. Unlike in :class:`range`, ``high`` is a value if it is on a step.
    step : int
        Distance between values: ``low``, ``low + step`` and so on. Default 1.
    where : mapping or callable, optional
        Condition under which the dimension is live; see :class:`Space`.

    Returns
    -------
    Range
        Domain for a :class:`Space`.

    Raises
    ------
    SpaceError
        The bounds are not integers, reversed, equal or beyond 2**53, or the step is not positive or beyond the range.

    Examples
    --------
    >>> integer(16, 256, step=16)
    integer(16, 256, step=16)
    """
    low, high = _bounds("integer", low, high, whole)
    step = _step(f"integer({low}, {high})", whole(step, "step of integer"), low, high)
    return Range("integer", low, high, step, condition(where))


def log_integer(low: int, high: int, *, where: Where | None = None) -> Range:
    """Return a domain of integers between two bounds with an approximately log-uniform distribution.

    Parameters
    ----------
    low, high : int
        Bounds of at least 1, both included. They are values, not exponents.
    where : mapping or callable, optional
        Condition under which the dimension is live; see :class:`Space`.

    Returns
    -------
    Range
        Domain for a :class:`Space`.

    Raises
    ------
    SpaceError
        The bounds are not integers, reversed, equal, 0, negative or beyond 2**53.

    Examples
    --------
    >>> log_integer(32, 256)
    log_integer(32, 256)
    """
    low, high = _bounds("log_integer", low, high, whole)
    if low <= 0:
        raise SpaceError(f"low must be at least 1 for log_integer, got {low!r}")
    return Range("log_integer", low, high, None, condition(where))


def _bounds(kind: Kind, low: Any, high: Any, number: Callable[[Any, str], Number]) -> tuple[Number, Number]:
    low, high = number(low, f"low of {kind}"), number(high, f"high of {kind}")
    if low > high:
        raise SpaceError(f"low must be less than high for {kind}, got {low!r} and {high!r}")
    if low == high:
        raise SpaceError(f"low must be less than high for {kind}, got {low!r} for both: use the value as a constant")
    return low, high


def _step(domain: str, step: Number, low: Number, high: Number) -> Number:
    if step <= 0:
        raise SpaceError(f"step of {domain} must be above 0, got {step!r}")
    steps = (_exact(high) - _exact(low)) / _exact(step)
    if steps < 1:
        raise SpaceError(f"step of {domain} must be at most the width of the range, got {step!r}")
    if steps > _MOST_VALUES:
        raise SpaceError(f"step of {domain} must divide it into at most 2**53 values, got {step!r}: leave it out")
    return step


def _exact(number: float) -> Fraction:
    # Convert the decimal that the user wrote, so that steps of 0.1 reach 0.3.
    return Fraction(repr(number))
