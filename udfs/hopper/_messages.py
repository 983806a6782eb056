"""Messages from the workers of a run to its driver, and the replies."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from optimizer.hybrids import Measured
from udfs.heartbeat import Abort, Acknowledged, Beat, Ended, Printed
from udfs.hopper._checkpoints import Record
from udfs.rpc import Request, WireProtocol

__all__ = [
    "HOPPER",
    "Abort",
    "Acknowledged",
    "Apart",
    "Beat",
    "CheckpointFailed",
    "CheckpointStored",
    "Ended",
    "EvaluateReport",
    "EvaluateUnit",
    "EvaluatedMember",
    "Hello",
    "Instruction",
    "JointReport",
    "JointUnit",
    "Meet",
    "Member",
    "MemberFailure",
    "MemberReport",
    "Met",
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
    """Orders that come with every unit, and with the lack of one."""

    # Trials, and the versions of their checkpoints that the worker need not hold any more.
    drop: tuple[tuple[str, int], ...]
    holds: tuple[int, ...]  # partitions that the worker keeps; it forgets all others


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait(Instruction):
    """There is no unit at the moment: ask again."""


@dataclass(frozen=True, slots=True)
class SourceState:
    """The checkpoint that a clone or a child begins from; the store has it."""

    trial_id: str
    version: int  # number of units that the trial had trained
    digest: str  # digest of the checkpoint
    weights_only: bool = False  # whether only the weights that fit are taken over, as by a child of another network


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A trial of a unit, and the checkpoint that it starts from."""

    trial_id: str
    params: dict[str, Any]  # values of the hyperparameters, by name
    version: int  # units that the trial has trained: the checkpoint to start from; 0 is built from the seed
    digest: str  # digest of that checkpoint
    peer: str  # location of the worker that holds it; empty where it is to be read from the store
    source: SourceState | None = None  # state that a clone at version 0 adopts once it is built from the seed
    record: Record | None = None  # origin of that checkpoint, for a unit of training; None for one of evaluation
    # Metric of the epoch before, for the first unit of an epoch and schedulers that follow it; None for other units.
    epoch_metric: float | None = None
    # Whether the checkpoint that the unit makes goes to the store too. Default True. If not, it goes there where the
    # worker has no memory for it.
    stores: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkUnit(Instruction):
    """Trials and a shard, for the two kinds of units: one trial, or a fused group of them."""

    unit_id: str
    partition: int  # number of the shard
    members: tuple[Member, ...]  # at least one
    # Expressions of the layers whose outputs are read in place of the shard's inputs; none in an ordinary search.
    loads: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluateUnit(WorkUnit):
    """Evaluate trials on a validation shard."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainUnit(WorkUnit):
    """Train trials on a shard."""

    epoch: int  # the same for all of them
    ends_epoch: bool  # whether it is their last unit of the epoch


@dataclass(frozen=True, slots=True, kw_only=True)
class JointUnit(TrainUnit):
    """Train an epoch of one trial together with other workers, each on its shards; ``partition`` is the first of them.

    The workers meet by :class:`Meet`, under the id of the unit.
    """

    mode: str  # "all_reduce", "averaging", or "auto": measure first, and train only if that is faster than hopping
    averages: bool  # whether "auto" may average weights
    rank: int  # place of this worker among those of the unit
    shares: tuple[tuple[int, ...], ...]  # numbers of the shards of each rank
    configurations: int  # configurations that are left to train, for the plan of "auto"


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberReport:
    """A unit is done for one of its trials."""

    trial_id: str
    # In training or evaluation itself: its own, and its share of what the unit did for all. Those of the members add up
    # to the unit's.
    seconds: float
    fetched_bytes: int  # size of the checkpoint that was fetched for it; 0 where the worker had it
    sums: dict[str, NDArray[np.float64]]  # contributions to the loss and the metrics
    # Parts of the seconds: its share of waiting for rows, and of running frozen layers. Default 0: an ordinary search.
    waited_seconds: float = 0.0
    frozen_seconds: float = 0.0
    read_seconds: float = 0.0  # its share of what reading took, most of it beside the training
    read_bytes: float = 0.0  # its share of what was read meanwhile
    remade: float = 0.0  # its share of the files that were damaged or gone, and made again


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluatedMember(MemberReport):
    """A trial is evaluated on the shard."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainedMember(MemberReport):
    """A trial is trained on the shard."""

    digest: str  # digest of the new checkpoint
    checkpoint_bytes: int  # its size
    inherited: str = ""  # description of the weights that it has from its source, of a child that began here


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberFailure:
    """A unit came to nothing for one of its trials; the others went on."""

    trial_id: str
    # "hop": the checkpoint could not be fetched, which is not the trial's fault; one of "hop", "diverged", "out of
    # memory", "raised".
    reason: str
    traceback: str  # traceback of the user's error


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluateReport:
    """A unit of evaluation is done."""

    unit_id: str
    members: tuple[EvaluatedMember | MemberFailure, ...]  # one for each of the unit's


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainReport:
    """A unit of training is done."""

    unit_id: str
    members: tuple[TrainedMember | MemberFailure, ...]  # one for each of the unit's


@dataclass(frozen=True, slots=True, kw_only=True)
class JointReport:
    """A rank has done its share of a joint unit, or the unit was declined."""

    unit_id: str
    seconds: float  # in training and exchanging, of this rank
    fetched_bytes: int  # size of the checkpoint that it fetched; 0 where it had it
    exchanged_bytes: float  # bytes that it sent to other ranks
    trained: TrainedMember | None  # the epoch, with the sums of all ranks, by rank 0; None of the others
    measured: Measured | None = None  # what the ranks measured in a unit with mode "auto"
    declined: str = ""  # reason why nothing was trained: the trial hops


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitFailure:
    """A unit came to nothing, by what it did for all its trials."""

    unit_id: str
    # "hop": the shard could not be read, which is no trial's fault; "team": another rank of a joint unit is gone. One
    # of "hop", "team", "diverged", "out of memory", "raised".
    reason: str
    traceback: str  # traceback of the user's error


@dataclass(frozen=True, slots=True, kw_only=True)
class Hello(Request[Welcome | Stop]):
    """A worker has loaded its shards and wants to be attached."""

    worker: str
    attempt: str  # tells the attempts of one worker apart
    location: str  # location of the endpoint from which others fetch checkpoints
    host: str  # name of the worker's machine
    memory_bytes: int  # memory of the process, and what its shards take of it
    shard_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NextUnit(Request[TrainUnit | JointUnit | EvaluateUnit | Wait | Stop]):
    """Report the last unit, if there was one, and ask for another."""

    worker: str
    attempt: str
    report: (
        TrainReport | JointReport | EvaluateReport | UnitFailure | None
    )  # report of the unit before; None at the first request
    printed: Printed | None = None  # by that unit, under the first of its trials
    # Whether it is the worker's turn in its process. If not, the reply comes once there may be a unit to take.
    takes: bool = True
    # Whether the worker's machine is about to end: the store has its states, and it takes no further unit.
    leaves: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Queued(Request[Acknowledged | Stop]):
    """The worker waits for its turn: another run trains in its process."""

    worker: str
    attempt: str


@dataclass(frozen=True, slots=True)
class Met:
    """Messages of all ranks of a joint unit."""

    messages: tuple[str, ...]  # in the order of the ranks


@dataclass(frozen=True, slots=True)
class Apart:
    """Notice that a joint unit has come to nothing, or is over."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Meet(Request[Met | Apart | Acknowledged]):
    """Exchange messages with the other ranks of a joint unit; without a message, wait for its end.

    The reply comes when there is one to give, or after some seconds, when the rank is to ask again.
    """

    worker: str
    attempt: str
    unit_id: str
    message: str = ""  # address of the rank and proof of its membership, see udfs.gang.Gang.connect


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointStored(Request[Acknowledged | Obsolete]):
    """The store has a checkpoint."""

    worker: str
    attempt: str
    trial_id: str
    version: int  # number of units that the trial had trained
    digest: str
    seconds: float  # duration of the write
    # Trials whose checkpoints the worker does not hold any more, because memory is short; the store has them.
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
    "hopper", 10, (Hello, NextUnit, Meet, Queued, Beat, Ended, CheckpointStored, CheckpointFailed, ShardFailed)
)
"""Messages of the model hopper; raise its version with every change of one."""
