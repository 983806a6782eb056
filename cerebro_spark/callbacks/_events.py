"""Events of a run that callbacks receive."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = [
    "EpochFinished",
    "Event",
    "RunFailed",
    "RunFinished",
    "RunStarted",
    "TrialFinished",
    "TrialStarted",
    "TrialState",
    "UnitFinished",
    "WorkerLost",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialState:
    """A trial as it is when the run starts, or starts again.

    Attributes
    ----------
    trial_id : str
        Id of the trial.
    params : mapping
        Values of the hyperparameters, by name.
    status : str
        ``"running"``, ``"paused"``, ``"finished"``, or why it ended early.
    units : int
        Training units that earlier parts of the run have trained.
    history : tuple of mapping
        The metrics of each epoch that is over.
    """

    trial_id: str
    params: Mapping[str, Any]
    status: str
    units: int
    history: tuple[Mapping[str, float], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStarted:
    """A run starts; the first event.

    Attributes
    ----------
    run_id : str
        Name of the run in the store.
    trials : tuple of TrialState
        Trials at the start; procedures start more later. The trials of a resumed run have histories.
    epoch : int
        The first one to be trained; later than 0 where a run is resumed.
    num_epochs : int
        The most that a configuration trains.
    num_units : int or None
        Training units of the whole run; ``None`` where its procedure starts as many configurations as it likes.
    seconds : float
        Duration of the earlier parts of the run.
    metric : str
        Name of the metric that decides which trial is best.
    larger_is_better : bool
        Whether more of the metric is better.
    """

    run_id: str
    trials: tuple[TrialState, ...]
    epoch: int
    num_epochs: int
    num_units: int | None
    seconds: float
    metric: str
    larger_is_better: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitFinished:
    """A unit ended: one trial on one shard.

    Trials that trained together are told one by one. The unit's time is divided among them as its seconds are, one
    after the other, so that what is added up over events is the time that the worker had units.

    Attributes
    ----------
    kind : {"train", "evaluate"}
        Kind of the unit.
    trial_id, worker : str
        Id of the trial.
    epoch, partition : int
        Numbers of the epoch and of the shard, from 0.
    began, ended : float
        Seconds since the start of the run, by the driver's clock, at which the unit was given out, and at which it was
        reported.
    seconds : float
        Time in training or evaluation itself.
    fetched_bytes : int
        Size of the checkpoint that the worker fetched for it; 0 where the worker had it. Default 0.
    from_store : bool
        Whether the checkpoint came from the store instead of another worker. Default ``False``.
    members : int
        Trials that were told of the same unit. Default 1.
    waited_seconds, frozen_seconds : float
        In an adaptation, of the seconds its share of waiting for stored outputs, and of running frozen layers.
        Default 0.
    read_seconds, read_bytes : float
        In an adaptation, its share of the time that reading took, most of it beside the training, and of what was read.
        Default 0.
    remade : float
        In an adaptation, its share of the files that were damaged or gone, and made again. Default 0.
    ranks : int
        Workers that trained the epoch together, each of them told of for its shards. Default 1.
    exchanged_bytes : float
        Bytes of gradients or weights that the worker sent to the others of these meanwhile. Default 0.
    """

    kind: str
    trial_id: str
    worker: str
    epoch: int
    partition: int
    began: float
    ended: float
    seconds: float
    fetched_bytes: int = 0
    from_store: bool = False
    members: int = 1
    waited_seconds: float = 0.0
    frozen_seconds: float = 0.0
    read_seconds: float = 0.0
    read_bytes: float = 0.0
    remade: float = 0.0
    ranks: int = 1
    exchanged_bytes: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochFinished:
    """Some trials have finished an epoch, and the store has their results.

    With ``rounds="together"`` they are all that have not ended; with ``"rolling"`` most often one. An epoch that is
    trained again, because its checkpoints were damaged, is told again.

    Attributes
    ----------
    epoch : int
        Index of the epoch, from 0.
    metrics : mapping of str to mapping of str to float
        By trial id: the training loss as ``"loss"``, loss and metrics of validation with ``val_`` before the name.
        Trials that ended early are not among them.
    """

    epoch: int
    metrics: Mapping[str, Mapping[str, float]]


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialStarted:
    """A procedure started a trial while the run went on.

    Attributes
    ----------
    trial : TrialState
        State of the trial.
    """

    trial: TrialState


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialFinished:
    """A trial ended: after its last epoch, or early.

    Attributes
    ----------
    trial_id : str
        Id of the trial.
    status : str
        ``"finished"``, or why it ended early: ``"raised"``, ``"diverged"``, ``"out of memory"``,
        ``"failed"`` (it took its workers with it).
    traceback : str
        Traceback of a trial that ended early, from its worker.
    reason : str
        Reason why the procedure ended it.
    """

    trial_id: str
    status: str
    traceback: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class WorkerLost:
    """A worker was lost; its unit is trained again.

    Attributes
    ----------
    seconds : float
        Time since the start of the run.
    worker, host, why : str
        Name of the worker, name of its machine, and reason of the loss.
    """

    seconds: float
    worker: str
    host: str
    why: str

    def __str__(self) -> str:
        return f"{self.seconds:.1f} s: {self.worker} on {self.host}: {self.why}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFinished:
    """End of the run, the last event: all trials have ended.

    Attributes
    ----------
    run_id : str
        Name of the run in the store.
    seconds : float
        Duration of this part of the run.
    """

    run_id: str
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFailed:
    """The run stopped before its end; the last event. The search's ``resume`` goes on with it.

    Attributes
    ----------
    run_id : str
        Name of the run in the store.
    error : str
        The error that ``fit`` raises, with its type.
    """

    run_id: str
    error: str


Event = RunStarted | UnitFinished | EpochFinished | TrialStarted | TrialFinished | WorkerLost | RunFinished | RunFailed
"""Any event of a run."""
