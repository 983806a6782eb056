"""A worker of a model hopper run: keeps its shards, and trains whatever configuration hops to it."""

from udfs.hopper._checkpoints import Checkpoints, Record
from udfs.hopper._states import States
from udfs.hopper._wire import Caller, CallError, Endpoint, RefusedError, Seal, address_towards
from udfs.hopper._worker import HopperWorker

__all__ = [
    "CallError",
    "Caller",
    "Checkpoints",
    "Endpoint",
    "HopperWorker",
    "Record",
    "RefusedError",
    "Seal",
    "States",
    "address_towards",
]
