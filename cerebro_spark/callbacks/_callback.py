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
        """Hear that the run starts, for the first time or again."""

    def unit_finished(self, event: UnitFinished) -> None:
        """Hear that one trial was trained, or evaluated, on one shard."""

    def epoch_finished(self, event: EpochFinished) -> None:
        """Hear that trials have finished an epoch, with the metrics of each."""

    def trial_started(self, event: TrialStarted) -> None:
        """Hear that a procedure started a trial while the run went on."""

    def trial_finished(self, event: TrialFinished) -> None:
        """Hear that a trial ended, and why."""

    def worker_lost(self, event: WorkerLost) -> None:
        """Hear that a worker was lost."""

    def run_finished(self, event: RunFinished) -> None:
        """Hear that all trials have ended."""

    def run_failed(self, event: RunFailed) -> None:
        """Hear that the run stopped before its end."""
