"""Messages from the workers of a run to its driver, and the replies."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from udfs.heartbeat import Abort, Acknowledged, Beat, Ended, Printed
from udfs.hopper._checkpoints import Record
from udfs.rpc import Request, WireProtocol

__all__ = [
    "HOPPER",
    "Abort",
    "Acknowledged",
    "Beat",
    "CheckpointFailed",
    "CheckpointStored",
    "Ended",
    "EvaluateReport",
    "EvaluateUnit",
    "EvaluatedMember",
    "Hello",
    "Instruction",
    "Member",
    "MemberFailure",
    "MemberReport",
    "NextUnit",
    "Obsolete",
    "Printed",
    "Queued",
    "ShardFailed",
    "SourceState",
    "Stop",
    "TrainReport",
    "TrainUnit",
    "TrainedMember",
    "UnitFailure",
    "Wait",
    "Welcome",
    "WorkUnit",
]


@dataclass(frozen=True, slots=True)
class Welcome:
    """The worker is attached."""


@dataclass(frozen=True, slots=True)
class Stop:
    """The worker ends: the run is over, or another attempt has taken its place."""


@dataclass(frozen=True, slots=True)
class Obsolete:
    """Reply: the sender was considered lost, and its unit is trained again, so it must not delete older checkpoints."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Instruction:
    """Orders that come with every unit, and with the lack of one.

    Parameters
    ----------
    drop : tuple of (str, int)
        Trials, and the versions of their checkpoints that the worker need not hold any more.
    holds : tuple of int
        Partitions that the worker keeps; it forgets all others.
    """

    drop: tuple[tuple[str, int], ...]
    holds: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait(Instruction):
    """There is no unit at the moment: ask again."""


@dataclass(frozen=True, slots=True)
class SourceState:
    """The checkpoint that a clone begins from; the store has it.

    Parameters
    ----------
    trial_id : str
        Id of the source.
    version : int
        Number of units that the trial had trained.
    digest : str
        Digest of the checkpoint.
    """

    trial_id: str
    version: int
    digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A trial of a unit, and the checkpoint that it starts from.

    Parameters
    ----------
    trial_id : str
        Id of the trial.
    params : dict
        Values of the hyperparameters, by name.
    version : int
        Units that the trial has trained: the checkpoint to start from; 0 is built from the seed.
    digest : str
        Digest of that checkpoint.
    peer : str
        Location of the worker that holds it; empty where it is to be read from the store.
    source : SourceState or None
        State that a clone at version 0 adopts once it is built from the seed.
    record : Record or None
        Origin of that checkpoint, for a unit of training; ``None`` for one of evaluation.
    stores : bool
        Whether the checkpoint that the unit makes goes to the store too. Default ``True``. If not, it goes there where
        the worker has no memory for it.
    """

    trial_id: str
    params: dict[str, Any]
    version: int
    digest: str
    peer: str
    source: SourceState | None = None
    record: Record | None = None
    stores: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkUnit(Instruction):
    """Trials and a shard, for the two kinds of units: one trial, or a fused group of them.

    Parameters
    ----------
    unit_id : str
        Id of the unit.
    partition : int
        Number of the shard.
    members : tuple of Member
        At least one.
    loads : tuple of str
        Expressions of the layers whose outputs are read in place of the shard's inputs; none in an ordinary search.
    """

    unit_id: str
    partition: int
    members: tuple[Member, ...]
    loads: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluateUnit(WorkUnit):
    """Evaluate trials on a validation shard."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainUnit(WorkUnit):
    """Train trials on a shard.

    Parameters
    ----------
    epoch : int
        The same for all of them.
    ends_epoch : bool
        Whether it is their last unit of the epoch.
    """

    epoch: int
    ends_epoch: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberReport:
    """A unit is done for one of its trials.

    Parameters
    ----------
    trial_id : str
        Id of the trial.
    seconds : float
        In training or evaluation itself: its own, and its share of what the unit did for all. Those of the members add
        up to the unit's.
    fetched_bytes : int
        Size of the checkpoint that was fetched for it; 0 where the worker had it.
    sums : dict of str to array
        Contributions to the loss and the metrics.
    waited_seconds, frozen_seconds : float
        Parts of the seconds: its share of waiting for rows, and of running frozen layers. Default 0: an ordinary
        search.
    read_seconds : float
        Its share of what reading took, most of it beside the training. Default 0.
    read_bytes : float
        Its share of what was read meanwhile. Default 0.
    remade : float
        Its share of the files that were damaged or gone, and made again. Default 0.
    """

    trial_id: str
    seconds: float
    fetched_bytes: int
    sums: dict[str, NDArray[np.float64]]
    waited_seconds: float = 0.0
    frozen_seconds: float = 0.0
    read_seconds: float = 0.0
    read_bytes: float = 0.0
    remade: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluatedMember(MemberReport):
    """A trial is evaluated on the shard."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainedMember(MemberReport):
    """A trial is trained on the shard.

    Parameters
    ----------
    digest : str
        Digest of the new checkpoint.
    checkpoint_bytes : int
        Its size.
    """

    digest: str
    checkpoint_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberFailure:
    """A unit came to nothing for one of its trials; the others went on.

    Parameters
    ----------
    trial_id : str
        Id of the trial.
    reason : {"hop", "diverged", "out of memory", "raised"}
        ``"hop"``: the checkpoint could not be fetched, which is not the trial's fault.
    traceback : str
        Traceback of the user's error.
    """

    trial_id: str
    reason: str
    traceback: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluateReport:
    """A unit of evaluation is done.

    Parameters
    ----------
    unit_id : str
        Id of the unit.
    members : tuple of EvaluatedMember or MemberFailure
        One for each of the unit's.
    """

    unit_id: str
    members: tuple[EvaluatedMember | MemberFailure, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainReport:
    """A unit of training is done.

    Parameters
    ----------
    unit_id : str
        Id of the unit.
    members : tuple of TrainedMember or MemberFailure
        One for each of the unit's.
    """

    unit_id: str
    members: tuple[TrainedMember | MemberFailure, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitFailure:
    """A unit came to nothing, by what it did for all its trials.

    Parameters
    ----------
    unit_id : str
        Id of the unit.
    reason : {"hop", "out of memory", "raised"}
        ``"hop"``: the shard could not be read, which is no trial's fault.
    traceback : str
        Traceback of the user's error.
    """

    unit_id: str
    reason: str
    traceback: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Hello(Request[Welcome | Stop]):
    """A worker has loaded its shards and wants to be attached.

    Parameters
    ----------
    worker : str
        Name of the worker.
    attempt : str
        Tells the attempts of one worker apart.
    location : str
        Location of the endpoint from which others fetch checkpoints.
    host : str
        Name of the worker's machine.
    memory_bytes, shard_bytes : int
        Memory of the process, and what its shards take of it.
    """

    worker: str
    attempt: str
    location: str
    host: str
    memory_bytes: int
    shard_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NextUnit(Request[TrainUnit | EvaluateUnit | Wait | Stop]):
    """Report the last unit, if there was one, and ask for another.

    Parameters
    ----------
    worker, attempt : str
        Name of the worker, and id of its attempt.
    report : TrainReport, EvaluateReport, UnitFailure or None
        Report of the unit before; ``None`` at the first request.
    printed : Printed or None
        By that unit, under the first of its trials.
    takes : bool
        Whether it is the worker's turn in its process. If not, the reply comes once there may be a unit to take.
    """

    worker: str
    attempt: str
    report: TrainReport | EvaluateReport | UnitFailure | None
    printed: Printed | None = None
    takes: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Queued(Request[Acknowledged | Stop]):
    """The worker waits for its turn: another run trains in its process."""

    worker: str
    attempt: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointStored(Request[Acknowledged | Obsolete]):
    """The store has a checkpoint.

    Parameters
    ----------
    worker, attempt, trial_id : str
        Name of the worker, id of its attempt, and id of the trial.
    version : int
        Number of units that the trial had trained.
    digest : str
        Digest of the checkpoint.
    seconds : float
        Duration of the write.
    dropped : tuple of str
        Trials whose checkpoints the worker does not hold any more, because memory is short; the store has them.
    """

    worker: str
    attempt: str
    trial_id: str
    version: int
    digest: str
    seconds: float
    dropped: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointFailed(Request[Acknowledged]):
    """The store does not take a checkpoint, after several tries."""

    worker: str
    trial_id: str
    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardFailed(Request[Acknowledged]):
    """A shard is damaged: no worker can train on it."""

    worker: str
    error: str


HOPPER = WireProtocol(
    "hopper", 6, (Hello, NextUnit, Queued, Beat, Ended, CheckpointStored, CheckpointFailed, ShardFailed)
)
"""Messages of the model hopper; raise its version with every change of one."""
