"""A rung of ASHA: all that have reached it, and who of them is promoted next."""

from __future__ import annotations

from bisect import bisect_left, insort
from heapq import heappop, heappush
from typing import TYPE_CHECKING

from optimizer.procedures._front import best_first
from optimizer.procedures._trial import WORST

if TYPE_CHECKING:
    from optimizer.procedures._trial import Trial

__all__ = ["FrontRung", "Rung"]

_Key = tuple[float, int]


class Rung:
    """Rung of a search with one objective.

    Parameters
    ----------
    eta : int
        One of so many is promoted.
    """

    def __init__(self, eta: int) -> None:
        self._eta = eta
        self._keys: list[_Key] = []
        self._waiting: list[tuple[_Key, Trial]] = []

    def reach(self, trial: Trial, point: tuple[float, ...]) -> None:
        """Note that a trial has reached the rung; it waits there if it is live."""
        key = (-point[0], trial.number)
        insort(self._keys, key)
        if trial.live:
            heappush(self._waiting, (key, trial))

    def promote(self) -> tuple[Trial, int] | None:
        """Take the best one that waits, if it is among the best 1/eta of the rung; with its place."""
        while self._waiting:
            key, trial = self._waiting[0]
            place = bisect_left(self._keys, key)
            if trial.live:
                if place >= len(self._keys) // self._eta:
                    return None
                heappop(self._waiting)
                return trial, place + 1
            heappop(self._waiting)
            del self._keys[place]  # ended while it waited: it leaves its place to the others
            insort(self._keys, (-WORST, trial.number))
        return None

    def __len__(self) -> int:
        return len(self._keys)


class FrontRung:
    """Rung of a search with several objectives: the order is that of :func:`best_first`.

    A newcomer may change the places of all others, so they are found anew for each promotion, in quadratic time.

    Parameters
    ----------
    eta : int
        One of so many is promoted.
    """

    def __init__(self, eta: int) -> None:
        self._eta = eta
        self._reached: list[tuple[Trial, tuple[float, ...]]] = []
        self._waiting: set[Trial] = set()

    def reach(self, trial: Trial, point: tuple[float, ...]) -> None:
        """See :meth:`Rung.reach`."""
        self._reached.append((trial, point))
        if trial.live:
            self._waiting.add(trial)

    def promote(self) -> tuple[Trial, int] | None:
        """See :meth:`Rung.promote`."""
        if not self._waiting:
            return None
        reached = [(trial, self._counts(trial, point)) for trial, point in self._reached]
        reached.sort(key=lambda each: each[0].number)
        order = best_first([point for _, point in reached])
        for place, index in enumerate(order[: len(order) // self._eta]):
            trial = reached[index][0]
            if trial in self._waiting and trial.live:
                self._waiting.discard(trial)
                return trial, place + 1
        return None

    def _counts(self, trial: Trial, point: tuple[float, ...]) -> tuple[float, ...]:
        """Give a trial's point; who ended while it waited leaves its place to the others."""
        return (WORST,) * len(point) if trial in self._waiting and not trial.live else point

    def __len__(self) -> int:
        return len(self._reached)
