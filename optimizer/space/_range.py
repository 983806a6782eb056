"""Numeric domains: uniform or logarithmic, of floats or integers."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from optimizer.space._errors import SpaceError
from optimizer.space._plain import Value, real, whole
from optimizer.space._scale import log_scaled
from optimizer.space._streams import below, share
from optimizer.space._where import ALWAYS, Condition, Where, condition

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Range", "integer", "log_integer", "log_uniform", "uniform"]

Number = TypeVar("Number", int, float)
Kind = Literal["uniform", "log_uniform", "integer", "log_integer"]

# Beyond this a stream's 53 bits no longer reach every value.
_MOST_VALUES = 2**53

# A value that was computed, such as 3 * 0.1, is on its step if it is that near, in steps.
_NEAR = Fraction(1, 10**9)


@dataclass(frozen=True)
class Range:
    """Numbers between two bounds, both included.

    Parameters
    ----------
    kind : {"uniform", "log_uniform", "integer", "log_integer"}
    low, high : float or int
        The bounds.
    step : float or int, optional
        Distance of neighbouring values, counted from ``low``; None for continuous and for logarithmic domains.
    where : Condition
        When the dimension is live.
    """

    kind: Kind
    low: float
    high: float
    step: float | None = None
    where: Condition = ALWAYS

    @property
    def log(self) -> bool:
        """Whether the scale is logarithmic."""
        return self.kind.startswith("log_")

    @property
    def integral(self) -> bool:
        """Whether the values are integers."""
        return self.kind.endswith("integer")

    @cached_property
    def count(self) -> int | None:
        """Number of values; None if continuous."""
        if self.kind == "log_integer":
            return int(self.high - self.low) + 1
        return None if self.step is None else int((_exact(self.high) - _exact(self.low)) // _exact(self.step)) + 1

    @property
    def several(self) -> bool:
        """Whether there is more than one value: always, since the bounds differ."""
        return True

    def __repr__(self) -> str:
        step = "" if self.step is None or (self.kind == "integer" and self.step == 1) else f", step={self.step!r}"
        where = f", where={self.where!r}" if self.where else ""
        return f"{self.kind}({self.low!r}, {self.high!r}{step}{where})"

    def __str__(self) -> str:
        step = "" if self.step is None or (self.kind == "integer" and self.step == 1) else f" step {self.step!r}"
        return f"{self.kind} {self.low!r} .. {self.high!r}{step}"

    def draw(self, word: int) -> float:
        """Make a value of a word of a stream."""
        if self.count is not None and not self.log:
            return self._at(below(word, self.count))
        part = share(word)
        if self.kind == "uniform":
            return min(max(self.low * (1 - part) + self.high * part, self.low), self.high)
        if self.kind == "log_uniform":
            return log_scaled(self.low, self.high, Decimal(part))
        # Half a unit on either side, so that the bounds are as likely as their neighbours.
        return self.nearest(log_scaled(self.low - 0.5, self.high + 0.5, Decimal(part)))

    def holds(self, value: Any) -> bool:
        """Tell whether a value belongs to the domain."""
        if isinstance(value, bool) or not isinstance(value, int if self.integral else int | float):
            return False
        if not self.low <= value <= self.high:
            return False
        if self.step is None:
            return True
        steps = (_exact(value) - _exact(self.low)) / _exact(self.step)
        return abs(steps - round(steps)) <= _NEAR

    def nearest(self, value: float) -> float:
        """Find the domain's value that is nearest to a number: within the bounds, and on a step."""
        return min(max(value, self.low), self.high) if self.count is None else self._at(self._place(value))

    def moved(self, value: Any, factor: float) -> Value:
        """Multiply a value, within the bounds; on a step, it moves by at least one."""
        target: float = min(max(value * factor, self.low), self.high)
        if self.count is None:
            return target
        before, after = self._place(value), self._place(target)
        if before == after:
            up = target > value or (target == value and factor > 1)
            after = min(max(after + (1 if up else -1), 0), self.count - 1)
        return self._at(after)

    def spread(self, points: int | None) -> list[Value]:
        """List the values of a grid; a domain without steps has ``points`` of them, both bounds included."""
        if self.count is not None and not self.log:
            return [self._at(place) for place in range(self.count)]
        if points is None:
            raise SpaceError(
                f"{self!r} has no steps for a grid: give points=, the number of its values"
                + ("" if self.log else ", or step=")
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
    """Take floats between two bounds, each as likely as the other.

    Parameters
    ----------
    low, high : float
        The bounds, both included.
    step : float, optional
        Take only ``low``, ``low + step`` and so on up to ``high``, which is a value only if it is on a step. The sums
        are decimal: three steps of 0.1 are 0.3. By default every float.
    where : mapping or callable, optional
        When the dimension is live: see :class:`Space`.

    Returns
    -------
    Range

    Raises
    ------
    SpaceError
        Bounds that are no finite numbers, reversed or equal; a step that is not positive, or beyond the range.

    Examples
    --------
    >>> uniform(0, 1, step=0.25)
    uniform(0.0, 1.0, step=0.25)
    """
    low, high = _bounds("uniform", low, high, real)
    if step is not None:
        step = _step(f"uniform({low!r}, {high!r})", real(step, "uniform: step"), low, high)
    return Range("uniform", low, high, step, condition(where))


def log_uniform(low: float, high: float, *, where: Where | None = None) -> Range:
    """Take floats between two bounds, each order of magnitude as likely as the other.

    Parameters
    ----------
    low, high : float
        The bounds, both included: values, not exponents. Both above 0.
    where : mapping or callable, optional
        When the dimension is live: see :class:`Space`.

    Returns
    -------
    Range

    Raises
    ------
    SpaceError
        Bounds that are no finite numbers, reversed, equal, 0 or negative.

    Examples
    --------
    >>> log_uniform(1e-5, 1e-1)
    log_uniform(1e-05, 0.1)
    """
    low, high = _bounds("log_uniform", low, high, real)
    if low <= 0:
        raise SpaceError(
            f"log_uniform: low={low!r}: a logarithm needs bounds above 0, and bounds are values, not exponents"
        )
    return Range("log_uniform", low, high, None, condition(where))


def integer(low: int, high: int, step: int = 1, *, where: Where | None = None) -> Range:
    """Take integers between two bounds, each as likely as the other.

    Parameters
    ----------
    low, high : int
        The bounds, both included. Unlike in :class:`range`, ``high`` is a value, if it is on a step.
    step : int
        Take only ``low``, ``low + step`` and so on; by default every integer.
    where : mapping or callable, optional
        When the dimension is live: see :class:`Space`.

    Returns
    -------
    Range

    Raises
    ------
    SpaceError
        Bounds that are no integers, reversed, equal or beyond 2**53; a step that is not positive, or beyond the range.

    Examples
    --------
    >>> integer(16, 256, step=16)
    integer(16, 256, step=16)
    """
    low, high = _bounds("integer", low, high, whole)
    step = _step(f"integer({low}, {high})", whole(step, "integer: step"), low, high)
    return Range("integer", low, high, step, condition(where))


def log_integer(low: int, high: int, *, where: Where | None = None) -> Range:
    """Take integers between two bounds, each order of magnitude about as likely as the other.

    Parameters
    ----------
    low, high : int
        The bounds, both included: values, not exponents. Both at least 1.
    where : mapping or callable, optional
        When the dimension is live: see :class:`Space`.

    Returns
    -------
    Range

    Raises
    ------
    SpaceError
        Bounds that are no integers, reversed, equal, 0, negative or beyond 2**53.

    Examples
    --------
    >>> log_integer(32, 256)
    log_integer(32, 256)
    """
    low, high = _bounds("log_integer", low, high, whole)
    if low <= 0:
        raise SpaceError(f"log_integer: low={low!r}: a logarithm needs bounds of 1 or more")
    return Range("log_integer", low, high, None, condition(where))


def _bounds(kind: Kind, low: Any, high: Any, number: Callable[[Any, str], Number]) -> tuple[Number, Number]:
    low, high = number(low, f"{kind}: low"), number(high, f"{kind}: high")
    if low > high:
        raise SpaceError(f"{kind}({low!r}, {high!r}): the bounds are reversed, the lower one comes first")
    if low == high:
        raise SpaceError(f"{kind}({low!r}, {high!r}): the bounds are equal, give {low!r} itself in place of a domain")
    return low, high


def _step(domain: str, step: Number, low: Number, high: Number) -> Number:
    if step <= 0:
        raise SpaceError(f"{domain}: step={step!r}: give a number above 0")
    steps = (_exact(high) - _exact(low)) / _exact(step)
    if steps < 1:
        raise SpaceError(f"{domain}: step={step!r} is beyond the range: only {low!r} would be left")
    if steps > _MOST_VALUES:
        raise SpaceError(f"{domain}: step={step!r} gives more than 2**53 values: leave it out")
    return step


def _exact(number: float) -> Fraction:
    # Of the decimal that the user wrote, so that steps of 0.1 meet 0.3.
    return Fraction(repr(number))
