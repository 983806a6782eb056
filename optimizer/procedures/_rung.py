"""Rungs of ASHA: trials that have reached a rung, and the next one to promote."""

from __future__ import annotations

from bisect import bisect_left, insort
from heapq import heappop, heappush
from typing import TYPE_CHECKING

from optimizer.procedures._pareto import best_first
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
        Reduction factor: the best 1 / ``eta`` are promoted.
    """

    def __init__(self, eta: int) -> None:
        self._eta = eta
        self._keys: list[_Key] = []
        self._waiting: list[tuple[_Key, Trial]] = []

    def reach(self, trial: Trial, point: tuple[float, ...]) -> None:
        """Add a trial that has reached the rung; it waits there if the procedure decides about it."""
        key = (-point[0], trial.number)
        insort(self._keys, key)
        if trial.competes:
            heappush(self._waiting, (key, trial))

    def promote(self) -> tuple[Trial, int] | None:
        """Return the best waiting trial and its place, if it is among the best 1 / ``eta`` of the rung."""
        while self._waiting:
            key, trial = self._waiting[0]
            place = bisect_left(self._keys, key)
            if trial.competes:
                if place >= len(self._keys) // self._eta:
                    return None
                heappop(self._waiting)
                return trial, place + 1
            heappop(self._waiting)
            del self._keys[place]  # it ended while it waited: rank it last
            insort(self._keys, (-WORST, trial.number))
        return None

    def __len__(self) -> int:
        return len(self._keys)


class FrontRung:
    """Rung of a search with several objectives: the order is that of :func:`best_first`.

    A new trial may change the places of all others, so each promotion ranks them again, in quadratic time.

    Parameters
    ----------
    eta : int
        Reduction factor: the best 1 / ``eta`` are promoted.
    """

    def __init__(self, eta: int) -> None:
        self._eta = eta
        self._reached: list[tuple[Trial, tuple[float, ...]]] = []
        self._waiting: set[Trial] = set()

    def reach(self, trial: Trial, point: tuple[float, ...]) -> None:
        """See :meth:`Rung.reach`."""
        self._reached.append((trial, point))
        if trial.competes:
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
            if trial in self._waiting and trial.competes:
                self._waiting.discard(trial)
                return trial, place + 1
        return None

    def _counts(self, trial: Trial, point: tuple[float, ...]) -> tuple[float, ...]:
        """Return a trial's point; the worst one if it ended while it waited."""
        return (WORST,) * len(point) if trial in self._waiting and not trial.competes else point

    def __len__(self) -> int:
        return len(self._reached)
