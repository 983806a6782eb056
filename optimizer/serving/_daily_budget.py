"""Budget of a session per day, spent on the busy time of backends."""

from __future__ import annotations

from dataclasses import dataclass

from optimizer.arguments import real

__all__ = ["DailyBudget"]

_DAY_S = 86_400.0
_HOUR_S = 3_600.0


@dataclass(slots=True)
class DailyBudget:
    """Dollars that a session may spend in each period of 24 hours.

    Parameters
    ----------
    dollars : float
        Budget of a day, above 0.
    dollars_per_hour : float
        Price of a backend that is busy for an hour, above 0.
    began_s : float
        Begin of the first day, in seconds of any clock. Default 0.
    spent_s : float
        Busy seconds of backends on the current day. Default 0.

    Raises
    ------
    InvalidArgumentError
        A value is not valid.

    Examples
    --------
    >>> budget = DailyBudget(3.0, dollars_per_hour=0.25)
    >>> budget.pace(0.0)
    0.5
    >>> budget.spend(21_600.0, 43_200.0)
    >>> budget.spent, budget.pace(43_200.0), budget.left_s
    (1.5, 0.5, 21600.0)
    """

    dollars: float
    dollars_per_hour: float
    began_s: float = 0.0
    spent_s: float = 0.0

    def __post_init__(self) -> None:
        real("dollars", self.dollars, 0, above=True)
        real("dollars_per_hour", self.dollars_per_hour, 0, above=True)

    @property
    def spent(self) -> float:
        """Dollars spent on the current day."""
        return self.spent_s * self.dollars_per_hour / _HOUR_S

    @property
    def left_s(self) -> float:
        """Busy seconds left on the current day."""
        return max(0.0, self.dollars / self.dollars_per_hour * _HOUR_S - self.spent_s)

    def spend(self, busy_s: float, now_s: float) -> None:
        """Add busy seconds that ended now; a new day begins with the whole budget."""
        days = (now_s - self.began_s) // _DAY_S
        if days >= 1:
            self.began_s += days * _DAY_S
            self.spent_s = 0.0
        self.spent_s += busy_s

    def ends_in_s(self, now_s: float) -> float:
        """Return the seconds until the next day."""
        return max(0.0, self.began_s + _DAY_S - now_s)

    def pace(self, now_s: float) -> float:
        """Return the busy seconds per second that use up the budget evenly by the end of the day."""
        return self.left_s / max(1.0, self.ends_in_s(now_s))
