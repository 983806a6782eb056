"""Budget of a run: limits in seconds and in cost."""

from __future__ import annotations

from dataclasses import dataclass

from cerebro_spark.errors import InvalidArgumentError

__all__ = ["Budget"]

_HOUR_S = 3600


@dataclass(frozen=True, slots=True)
class Budget:
    """Seconds and money that a run may take.

    ``max_seconds`` includes the earlier parts of the run. ``price`` is per worker-hour, in any currency; ``max_cost``
    limits the seconds in which workers were there, times their price.

    Raises
    ------
    InvalidArgumentError
        A value that is not above 0, or a cost without a price.

    Examples
    --------
    >>> Budget(price=1.2, max_cost=3).over(seconds=5400, worker_seconds=9000)
    'the budget of 3 is spent: 2.5 worker-hours at 1.2'
    """

    max_seconds: float | None = None
    price: float | None = None
    max_cost: float | None = None

    def __post_init__(self) -> None:
        for name in ("max_seconds", "price", "max_cost"):
            value = getattr(self, name)
            if value is not None and (isinstance(value, bool) or not isinstance(value, int | float) or not value > 0):
                raise InvalidArgumentError(f"{name} must be a positive number or None, got {value!r}")
        if self.max_cost is not None and self.price is None:
            raise InvalidArgumentError(
                f"max_cost must come with price, the cost per worker-hour, got max_cost={self.max_cost!r} alone"
            )

    def over(self, seconds: float, worker_seconds: float) -> str:
        """Describe the limit that is reached.

        ``seconds`` are since the start of the run, ``worker_seconds`` those in which workers were there. Return ``""``
        below all limits.
        """
        if self.max_seconds is not None and seconds > self.max_seconds:
            return f"the {self.max_seconds:g} seconds are over"
        hours = worker_seconds / _HOUR_S
        if self.price is not None and self.max_cost is not None and hours * self.price >= self.max_cost:
            return f"the budget of {self.max_cost:g} is spent: {hours:g} worker-hours at {self.price:g}"
        return ""
