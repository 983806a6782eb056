"""Base class of callbacks."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cerebro_spark.callbacks._events import (
        EpochFinished,
        RunFailed,
        RunFinished,
        RunStarted,
        TrialFinished,
        TrialStarted,
        UnitFinished,
        WorkerLost,
    )

__all__ = ["Callback"]


class Callback:
    """Base class of callbacks: every method does nothing until it is overridden.

    Examples
    --------
    >>> from cerebro_spark.callbacks import WorkerLost
    >>> class Alarm(Callback):
    ...     def worker_lost(self, event: WorkerLost) -> None:
    ...         print(f"lost {event.worker}: {event.why}")
    >>> Alarm().worker_lost(WorkerLost(worker="w1", host="node-3", why="no word for 15 s", seconds=80.5))
    lost w1: no word for 15 s
    """

    def run_started(self, event: RunStarted) -> None:
        """Handle the start of the run, for the first time or after an interruption."""

    def unit_finished(self, event: UnitFinished) -> None:
        """Handle the end of a unit: one trial was trained or evaluated on one shard."""

    def epoch_finished(self, event: EpochFinished) -> None:
        """Handle the end of an epoch of trials, with the metrics of each."""

    def trial_started(self, event: TrialStarted) -> None:
        """Handle the start of a trial by a procedure during the run."""

    def trial_finished(self, event: TrialFinished) -> None:
        """Handle the end of a trial, with its reason."""

    def worker_lost(self, event: WorkerLost) -> None:
        """Handle the loss of a worker."""

    def run_finished(self, event: RunFinished) -> None:
        """Handle the end of the run, when all trials have ended."""

    def run_failed(self, event: RunFailed) -> None:
        """Handle an interruption of the run before its end."""
