"""Spending of the sessions that have a budget."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from typing import TYPE_CHECKING

from optimizer.serving import DailyBudget
from udfs.serving import OverloadedError

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from udfs.serving import Link
    from vista_spark.serving._catalog import Catalog

__all__ = ["Spending"]

# Seconds until a report of busy time is counted: checks of the reports, and the time that a backend collects for.
_UNSEEN_S = 2.0

# Bounds of measured over planned busy time.
_LEAST, _MOST = 0.25, 20.0


class Spending:
    """Busy time of the sessions that have a budget, and the refusals of those that have used it up.

    Parameters
    ----------
    dollars_per_hour : float
        Price of a busy backend.
    """

    def __init__(self, dollars_per_hour: float) -> None:
        self._price = dollars_per_hour
        self._lock = threading.Lock()
        self._budgets: dict[str, DailyBudget] = {}
        self._slos_s: dict[str, float] = {}
        self._sessions: dict[str, str] = {}  # sessions by group, also of former versions
        self._counted: dict[Link, Mapping[str, float]] = {}
        self._recent: dict[str, float] = {}  # busy seconds since the last correction
        self._factors: dict[str, float] = {}  # measured over planned busy time

    @property
    def spent(self) -> dict[str, float]:
        """Dollars of the current day, by session."""
        with self._lock:
            return {name: budget.spent for name, budget in self._budgets.items()}

    def follow(self, catalog: Catalog) -> None:
        """Set the budgets of a catalog; a session that stays keeps what it has spent."""
        with self._lock:
            before, self._budgets = self._budgets, {}
            for name, dollars in catalog.budgets.items():
                known = before.get(name) or DailyBudget(dollars, self._price, time.monotonic())
                self._budgets[name] = replace(known, dollars=dollars)
            self._slos_s = {offer.model.name: offer.model.slo_ms / 1000 for offer in catalog.offers}
            self._sessions |= {group: names[0] for group, names in catalog.members.items() if names[0] in self._budgets}

    def refusals(self, links: Collection[Link]) -> dict[str, OverloadedError]:
        """Count the busy time that backends report; return an error for each session whose budget is used up.

        What rows on their way may still cost is reserved, so that a budget is never exceeded.
        """
        now, refused = time.monotonic(), {}
        with self._lock:
            busy = self._reported(links)
            for name, budget in self._budgets.items():
                budget.spend(busy.get(name, 0.0), now)
                self._recent[name] = self._recent.get(name, 0.0) + busy.get(name, 0.0)
                if budget.left_s <= len(links) * (_UNSEEN_S + 2 * self._slos_s[name]):
                    wait = budget.ends_in_s(now)
                    refused[name] = OverloadedError(
                        f"The budget of {name!r} is used up: dollars_per_day is {budget.dollars:g}. The next day "
                        f"begins in {wait / 3600:.1f} h.",
                        wait,
                    )
        return refused

    def _reported(self, links: Collection[Link]) -> dict[str, float]:
        """Return the busy seconds by session since the last call."""
        busy: dict[str, float] = {}
        # A lost backend may have reported since it was counted.
        for link in {*links, *self._counted}:
            reported = {} if link.results is None else link.results.busy_ms
            counted = self._counted.get(link, {})
            for group in reported.keys() & self._sessions.keys():
                name = self._sessions[group]
                busy[name] = busy.get(name, 0.0) + (reported[group] - counted.get(group, 0.0)) / 1000
            self._counted[link] = reported
        self._counted = {link: counted for link, counted in self._counted.items() if link.alive}
        return busy

    def correct(self, planned_s: Mapping[str, float]) -> None:
        """Compare measured busy time with that of the plan, in seconds by session since the last call.

        Batches are smaller at low rates, so requests may take longer than planned.
        """
        with self._lock:
            for name in self._budgets:
                recent, planned = self._recent.pop(name, 0.0), planned_s.get(name, 0.0)
                if recent > 0 and planned > 0:
                    self._factors[name] = min(max(recent / planned, _LEAST), _MOST)

    def limits(self) -> dict[str, float]:
        """Return the busy seconds per second, as plans count them, that use each session's budget evenly."""
        now = time.monotonic()
        with self._lock:
            return {name: budget.pace(now) / self._factors.get(name, 1.0) for name, budget in self._budgets.items()}
