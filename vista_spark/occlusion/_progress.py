"""Progress of an explanation: places done, seconds left, the picture so far; and its cancellation."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from udfs.occlusion import nearest_known
from vista_spark.errors import ExplanationCancelledError

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from udfs.occlusion import Pace

__all__ = ["Monitor", "Progress"]

# The first estimate is given when the next batch might end later than so many seconds after the network began.
_FIRST = 2.0

# An estimate is given again where it has changed by a larger share.
_CHANGE = 0.1


@dataclass(frozen=True)
class Progress:
    """State of an explanation that is being computed; ``on_progress`` gets one after each batch.

    Attributes
    ----------
    heat_map : array of float32, of the grid's shape, or (targets, *grid) for several targets
        The heat map so far; NaN where it is not computed yet. Places are computed from coarse to fine, each level a
        lattice of half the stride.
    done, total : int
        Places computed, and places to compute; in the approximate mode at most so many, and those that are estimated
        count as computed at the end.
    seconds : float
        Since the network began with the image.
    seconds_left : float
        Estimate of the seconds until the heat map is complete and verified.
    """

    heat_map: NDArray[np.float32]
    done: int
    total: int
    seconds: float
    seconds_left: float

    def filled(self) -> NDArray[np.float32]:
        """Give places that are not computed yet the value of the nearest one of a coarser level, for display.

        Examples
        --------
        >>> coarse = np.array([[0.25, np.nan, 0.5], [np.nan, np.nan, np.nan]], np.float32)
        >>> Progress(coarse, 2, 6, 0.1, 0.2).filled().tolist()
        [[0.25, 0.5, 0.5], [0.25, 0.5, 0.5]]
        """
        if self.heat_map.ndim > 2:  # rows and columns
            return np.stack([nearest_known(heat_map) for heat_map in self.heat_map])
        return nearest_known(self.heat_map)

    def to_json(self) -> str:
        """Write the progress as JSON, one object; a place that is not computed yet is null.

        Examples
        --------
        >>> Progress(np.array([[0.5, np.nan]], np.float32), 1, 2, 0.25, 0.25).to_json()
        '{"done": 1, "total": 2, "seconds": 0.25, "seconds_left": 0.25, "heat_map": [[0.5, null]]}'
        """
        numbers = self.heat_map.astype(object)
        numbers[np.isnan(self.heat_map)] = None
        facts = {name: getattr(self, name) for name in ("done", "total", "seconds", "seconds_left")}
        return json.dumps({**facts, "heat_map": numbers.tolist()}, allow_nan=False)


class Monitor:
    """Reports the progress of one heat map, and ends it where it is cancelled. Called after each batch.

    Parameters
    ----------
    pace : Pace
    beside : float
        Seconds that verification and the start of jobs take beside the places.
    at_once : bool
        Give an estimate before any place is computed.
    single : bool
        Report the one heat map, rather than an array of those of all targets.
    started : float
        ``time.perf_counter()`` when the network began with the image.
    on_update, on_estimate, on_progress : callable, optional
        As for :meth:`vista_spark.ExplainerSession.explain`.
    cancelled : callable, optional
        Tells whether the request is cancelled.
    """

    def __init__(
        self,
        pace: Pace,
        *,
        beside: float,
        at_once: bool,
        single: bool,
        started: float,
        on_update: Callable[[NDArray[np.float32]], object] | None = None,
        on_estimate: Callable[[float], object] | None = None,
        on_progress: Callable[[Progress], object] | None = None,
        cancelled: Callable[[], bool] = lambda: False,
    ) -> None:
        self._pace, self._beside, self._started = pace, beside, started
        self._on_update, self._on_estimate, self._on_progress = on_update, on_estimate, on_progress
        self._single, self._cancelled = single, cancelled
        self._told: float | None = None
        self._last = time.perf_counter()
        if at_once or self._late():
            self._tell(self._seconds_left)

    def __call__(self, maps: NDArray[np.float32]) -> None:
        """Note a batch.

        Parameters
        ----------
        maps : array of float32, of shape (targets, *grid)
            So far.

        Raises
        ------
        ExplanationCancelledError
            The request is cancelled.
        """
        now = time.perf_counter()
        took, self._last = now - self._last, now
        heat_map = maps[0] if self._single else maps
        self._pace.add(~np.isnan(maps[0]), took)
        left = self._seconds_left
        if self._told is not None or self._late() or 2 * self._pace.done >= self._pace.places:
            self._tell(left)
        if self._on_update is not None:
            self._on_update(heat_map)
        if self._on_progress is not None:
            seconds = time.perf_counter() - self._started
            self._on_progress(Progress(heat_map, self._pace.done, self._pace.places, seconds, left))
        if self._cancelled():
            raise ExplanationCancelledError(heat_map)

    @property
    def _seconds_left(self) -> float:
        return (self._pace.seconds_left or 0.0) + self._beside

    def _late(self) -> bool:
        return time.perf_counter() + self._pace.next_seconds - self._started > _FIRST

    def _tell(self, left: float) -> None:
        """Give the estimate of all seconds, unless it is nearly the last one."""
        if self._on_estimate is None:
            return
        estimate = time.perf_counter() - self._started + left
        if self._told is None or abs(estimate / self._told - 1) > _CHANGE:
            self._told = estimate
            self._on_estimate(estimate)
