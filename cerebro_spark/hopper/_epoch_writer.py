"""Writer of the results of epochs: to the journal, and then to the callbacks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from cerebro_spark.callbacks import EpochFinished
from cerebro_spark.hopper._metrics import epoch_metrics

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cerebro_spark.callbacks import EventStream
    from cerebro_spark.hopper._context import RunContext
    from cerebro_spark.hopper._events import Event
    from cerebro_spark.hopper._journal import Journal
    from cerebro_spark.hopper._retention import Retention
    from cerebro_spark.hopper._trial import Trial

__all__ = ["EpochWriter", "TrialWriter"]


class TrialWriter(Protocol):
    """Writer of the state of trials. The coordinator makes one call at a time, without the run's lock."""

    def write_epochs(self, trials: Sequence[Trial], events: Sequence[Event]) -> None:
        """Write the results of trials that have finished an epoch or ended early.

        ``events`` are the units since the last call.
        """

    def write_ends(self, trials: Sequence[Trial]) -> None:
        """Write the state of trials that the procedure's decisions have ended or paused."""


class EpochWriter:
    """Writer of trials to the journal. Callbacks hear of an epoch once its results are durable."""

    def __init__(self, context: RunContext, journal: Journal, stream: EventStream, retention: Retention) -> None:
        self._context = context
        self._journal = journal
        self._stream = stream
        self._retention = retention

    def write_epochs(self, trials: Sequence[Trial], events: Sequence[Event]) -> None:
        """See :meth:`TrialWriter.write_epochs`."""
        running = [trial for trial in trials if trial.running]
        finished: dict[int, dict[str, dict[str, float]]] = {}
        for trial in running:
            metrics = epoch_metrics(trial, trial.epoch, self._context.probed.results)
            finished.setdefault(trial.epoch, {})[trial.trial_id] = dict(metrics)
            trial.history.append(metrics)
        try:
            self._journal.close(trials, events)
        except BaseException:
            # An epoch is over once the store has its results.
            for trial in running:
                trial.history.pop()
            raise
        self._retention.sweep(trials)
        for epoch, metrics_by_trial in sorted(finished.items()):
            self._stream.publish(EpochFinished(epoch=epoch, metrics=metrics_by_trial))

    def write_ends(self, trials: Sequence[Trial]) -> None:
        """See :meth:`TrialWriter.write_ends`."""
        for trial in trials:
            self._journal.write_trial(trial)
