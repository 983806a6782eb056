"""What the TRAIN room raises: one tree over :class:`optimizer.errors.CerebroError`."""

from __future__ import annotations

from optimizer.errors import CerebroError, ColumnError, EmptyInputError, InvalidArgumentError, LabelError
from udfs.shards import ShardError
from udfs.store import StoreError
from udfs.training import TrainerError

__all__ = [
    "BusyError",
    "CerebroError",
    "CerebroSparkError",
    "ChangingInputError",
    "CheckpointError",
    "ColumnError",
    "EmptyInputError",
    "InvalidArgumentError",
    "LabelError",
    "MissingPackageError",
    "NoModelError",
    "RunError",
    "ShardError",
    "StoreError",
    "TooFewSlotsError",
    "TrainerError",
]


class CerebroSparkError(CerebroError):
    """Base of what ``cerebro_spark`` raises on purpose."""


class ChangingInputError(CerebroSparkError, RuntimeError):
    """A DataFrame that gave other rows when it was read a second time."""


class MissingPackageError(CerebroSparkError, ImportError):
    """An optional package that this would need is not installed; the message has the command."""


class TooFewSlotsError(CerebroSparkError, RuntimeError):
    """The cluster runs fewer tasks at a time than there are to be workers."""


class BusyError(CerebroSparkError, RuntimeError):
    """A run holds the task slots that this would need."""


class RunError(CerebroSparkError, RuntimeError):
    """A run that cannot begin or go on; the message says what would help."""


class CheckpointError(RunError):
    """The store does not take checkpoints any more."""


class NoModelError(CerebroSparkError, LookupError):
    """No configuration was trained to the end; the message has what became of them."""
