"""A worker of a model hopper run: holds its shards, and trains whatever trial hops to it."""

from udfs.hopper._checkpoints import Checkpoints, Record
from udfs.hopper._messages import (
    HOPPER,
    Abort,
    Acknowledged,
    Beat,
    CheckpointFailed,
    CheckpointStored,
    EvaluateReport,
    EvaluateUnit,
    Hello,
    Instruction,
    NextUnit,
    Obsolete,
    ShardFailed,
    Stop,
    TrainReport,
    TrainUnit,
    UnitFailure,
    UnitReport,
    Wait,
    Welcome,
    WorkUnit,
)
from udfs.hopper._settings import WorkerSettings
from udfs.hopper._states import States, digest_of
from udfs.hopper._worker import HopperWorker

__all__ = [
    "HOPPER",
    "Abort",
    "Acknowledged",
    "Beat",
    "CheckpointFailed",
    "CheckpointStored",
    "Checkpoints",
    "EvaluateReport",
    "EvaluateUnit",
    "Hello",
    "HopperWorker",
    "Instruction",
    "NextUnit",
    "Obsolete",
    "Record",
    "ShardFailed",
    "States",
    "Stop",
    "TrainReport",
    "TrainUnit",
    "UnitFailure",
    "UnitReport",
    "Wait",
    "Welcome",
    "WorkUnit",
    "WorkerSettings",
    "digest_of",
]
