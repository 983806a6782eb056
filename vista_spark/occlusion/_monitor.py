"""Monitor of one heat map: reports of its progress, and its cancellation."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import numpy as np

from vista_spark.errors import ExplanationCancelledError
from vista_spark.occlusion._progress import Progress

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from udfs.occlusion import Pace
    from vista_spark.occlusion._options import OcclusionOptions

__all__ = ["Monitor"]

# The first estimate is reported when the next batch might end later than this many seconds after the network began.
_FIRST = 2.0

# An estimate is reported again where it has changed by a larger share.
_CHANGE = 0.1

# Two estimates in a row agree if they differ by at most this factor. The first batch is often slow, and an estimate of
# it alone is wrong by more than a factor of two.
_AGREEMENT = 1.5


class Monitor:
    """Reporter of the progress of one heat map, which also ends a cancelled one. Called after each batch.

    ``extra_seconds`` are those that verification and the start of jobs take in addition to the places. ``at_once``
    reports an estimate before any place is computed; ``single`` reports one heat map rather than an array of all
    targets' maps. ``started`` is ``time.perf_counter()`` when the network began with the image.
    """

    def __init__(
        self,
        pace: Pace,
        options: OcclusionOptions,
        *,
        extra_seconds: float,
        at_once: bool,
        single: bool,
        started: float,
        is_cancelled: Callable[[], bool] = lambda: False,
    ) -> None:
        self._pace, self._options, self._extra_seconds, self._started = pace, options, extra_seconds, started
        self._single, self._is_cancelled = single, is_cancelled
        self._estimate: float | None = None
        self._former: float | None = None
        self._last = time.perf_counter()
        # A run of the whole network says nothing of places whose patches alone are computed.
        if at_once or (pace.is_in_full and self._is_late()):
            self._report_estimate(self._seconds_left)

    def __call__(self, maps: NDArray[np.float32]) -> None:
        """Record a batch and report it.

        ``maps`` are the heat maps after the batch, of shape (targets, *grid). Raise ExplanationCancelledError if the
        request is cancelled.
        """
        now = time.perf_counter()
        batch_seconds, self._last = now - self._last, now
        heat_map = maps[0] if self._single else maps
        self._pace.add(~np.isnan(maps[0]), batch_seconds)
        left = self._seconds_left
        is_due = self._estimate is not None or self._is_late() or 2 * self._pace.done >= self._pace.places
        if self._is_steady(left) and is_due:
            self._report_estimate(left)
        if self._options.on_update is not None:
            self._options.on_update(heat_map)
        if self._options.on_progress is not None:
            seconds = time.perf_counter() - self._started
            self._options.on_progress(Progress(heat_map, self._pace.done, self._pace.places, seconds, left))
        if self._is_cancelled():
            raise ExplanationCancelledError(heat_map)

    @property
    def _seconds_left(self) -> float:
        return (self._pace.seconds_left or 0.0) + self._extra_seconds

    def _is_late(self) -> bool:
        return time.perf_counter() + self._pace.next_seconds - self._started > _FIRST

    def _is_steady(self, left: float) -> bool:
        """Return whether the last two estimates agree, or half of the places are computed."""
        estimate = time.perf_counter() - self._started + left
        former, self._former = self._former, estimate
        if 2 * self._pace.done >= self._pace.places:
            return True
        if self._pace.batches < 2 or former is None:
            return False
        return max(former, estimate) <= _AGREEMENT * min(former, estimate)

    def _report_estimate(self, left: float) -> None:
        """Report the estimate of all seconds, unless it is close to the last one."""
        if self._options.on_estimate is None:
            return
        estimate = time.perf_counter() - self._started + left
        if self._estimate is None or abs(estimate / self._estimate - 1) > _CHANGE:
            self._estimate = estimate
            self._options.on_estimate(estimate)
