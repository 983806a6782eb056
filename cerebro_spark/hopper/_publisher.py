"""Publisher of a run's events to its callbacks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cerebro_spark.callbacks import RunStarted, TrialFinished, TrialStarted, TrialState

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cerebro_spark.callbacks import EventStream
    from cerebro_spark.hopper._events import Event, Loss
    from cerebro_spark.hopper._journal import RunSpec
    from cerebro_spark.hopper._trial import Trial

__all__ = ["Publisher", "run_started"]


class Publisher:
    """Observer of the coordinator that publishes events; every method returns at once."""

    def __init__(self, stream: EventStream) -> None:
        self._stream = stream

    def unit(self, event: Event) -> None:
        """Publish a unit that ended."""
        self._stream.publish(event)

    def worker_lost(self, loss: Loss) -> None:
        """Publish the loss of a worker."""
        self._stream.publish(loss)

    def trial_started(self, trial: Trial) -> None:
        """Publish the start of a trial."""
        self._stream.publish(TrialStarted(trial=_state(trial)))

    def trial_ended(self, trial: Trial) -> None:
        """Publish the end of a trial."""
        ended = TrialFinished(
            trial_id=trial.trial_id, status=trial.status, traceback=trial.traceback, reason=trial.reason
        )
        self._stream.publish(ended)


def _state(trial: Trial) -> TrialState:
    return TrialState(
        trial_id=trial.trial_id,
        params=dict(trial.params),
        status=trial.status,
        units=trial.version,
        history=tuple(dict(metrics) for metrics in trial.history),
    )


def run_started(
    spec: RunSpec, trials: Sequence[Trial], epoch: int, num_units: int | None, seconds: float
) -> RunStarted:
    """Describe a run that starts, or starts again.

    ``epoch`` is the first to be trained, and ``seconds`` is the duration of the earlier parts of the run.
    """
    return RunStarted(
        run_id=spec.run,
        trials=tuple(map(_state, trials)),
        epoch=epoch,
        num_epochs=spec.epochs,
        num_units=num_units,
        seconds=seconds,
        metric=spec.metric,
        larger_is_better=spec.larger_is_better,
    )
