"""Callbacks: follow a run event by event, as its progress table, MLflow and TensorBoard do.

A run publishes what happens to it: it starts, units and epochs finish, trials end, workers are lost, it finishes or
fails. Subclass :class:`Callback`, override what you want to hear of, and hand it to ``GridSearch(callbacks=[...])``,
``Selection.resume(callbacks=[...])`` or ``Selection.replay(callbacks=[...])``.

All callbacks of a run are called from one thread, in the order in which things happened. A slow callback therefore
delays the callbacks, never a unit; ``fit`` returns after the last one was called. A callback that raises is logged, and
the run goes on.

Examples
--------
Print the validation loss of each configuration after every epoch:

>>> class Losses(Callback):
...     def epoch_finished(self, event: EpochFinished) -> None:
...         for trial_id, metrics in event.metrics.items():
...             print(f"epoch {event.epoch}: {trial_id} has {metrics['val_loss']}")

>>> callback = Losses()  # for GridSearch(callbacks=[callback], ...)
>>> callback.epoch_finished(EpochFinished(epoch=0, metrics={"c000": {"val_loss": 0.7}, "c001": {"val_loss": 0.5}}))
epoch 0: c000 has 0.7
epoch 0: c001 has 0.5
"""

from cerebro_spark.callbacks._callback import Callback
from cerebro_spark.callbacks._events import (
    EpochFinished,
    Event,
    RunFailed,
    RunFinished,
    RunStarted,
    TrialFinished,
    TrialStarted,
    TrialState,
    UnitFinished,
    WorkerLost,
)
from cerebro_spark.callbacks._progress import ProgressTable
from cerebro_spark.callbacks._stream import EventStream
from cerebro_spark.callbacks._tensorboard import TensorBoard

__all__ = [
    "Callback",
    "EpochFinished",
    "Event",
    "EventStream",
    "ProgressTable",
    "RunFailed",
    "RunFinished",
    "RunStarted",
    "TensorBoard",
    "TrialFinished",
    "TrialStarted",
    "TrialState",
    "UnitFinished",
    "WorkerLost",
]
