"""TensorBoard's event files."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cerebro_spark.callbacks._callback import Callback
from cerebro_spark.errors import MissingPackageError
from udfs.driver import validate_arguments

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cerebro_spark.callbacks._events import (
        EpochFinished,
        RunFailed,
        RunFinished,
        RunStarted,
        TrialFinished,
        TrialStarted,
        TrialState,
    )

__all__ = ["TensorBoard"]


@validate_arguments
class TensorBoard(Callback):
    """Write event files that TensorBoard reads, one folder per trial, its params for the HParams dashboard.

    ``GridSearch(tensorboard=folder)`` adds one.

    Parameters
    ----------
    folder : str
        Local to the driver.

    Raises
    ------
    MissingPackageError
        TensorBoard is not installed.
    """

    def __init__(self, folder: str) -> None:
        try:
            from tensorboard.summary import Writer  # an optional package

            from cerebro_spark.callbacks._hparams import Sessions  # an optional package
        except ImportError as error:
            raise MissingPackageError(
                f"tensorboard={folder!r} needs TensorBoard: pip install 'cerebro-spark[tensorboard]'"
            ) from error
        self._open = Writer
        self._sessions = Sessions(folder)
        self._folder = Path(folder)
        self._writers: dict[str, Any] = {}

    def run_started(self, event: RunStarted) -> None:
        """Open the files; those of a resumed run get the epochs that are over."""
        for trial in event.trials:
            self._add(trial)

    def trial_started(self, event: TrialStarted) -> None:
        """Open the trial's file."""
        self._add(event.trial)

    def epoch_finished(self, event: EpochFinished) -> None:
        """Write the metrics."""
        for trial_id, metrics in event.metrics.items():
            self._write(trial_id, event.epoch, metrics)

    def trial_finished(self, event: TrialFinished) -> None:
        """Write how the trial ended."""
        self._sessions.end(event.trial_id, succeeded=event.status in {"finished", "stopped"})

    def run_finished(self, event: RunFinished) -> None:  # the files have it all
        """Close the files."""
        self._close()

    def run_failed(self, event: RunFailed) -> None:  # the files have it all
        """Close the files."""
        self._close()

    def _add(self, trial: TrialState) -> None:
        self._writers[trial.trial_id] = self._open(str(self._folder / trial.trial_id))
        self._sessions.start(trial.trial_id, trial.params)
        for epoch, metrics in enumerate(trial.history):
            self._write(trial.trial_id, epoch, metrics)

    def _write(self, trial_id: str, epoch: int, metrics: Mapping[str, float]) -> None:
        writer = self._writers[trial_id]
        for name, value in metrics.items():
            writer.add_scalar(name, value, epoch, wall_time=time.time())
        writer.flush()

    def _close(self) -> None:
        for writer in self._writers.values():
            writer.close()
