"""Errors of the TRAIN room: one tree under :class:`optimizer.errors.CerebroError`."""

from __future__ import annotations

from optimizer.errors import (
    ArgumentTypeError,
    CerebroError,
    ColumnError,
    EmptyInputError,
    InvalidArgumentError,
    LabelError,
)
from udfs.adaptation import AugmentationError, FeatureError, FeatureSpaceError
from udfs.driver import TrackingError
from udfs.shards import ShardError
from udfs.store import StoreError
from udfs.training import TrainerError

__all__ = [
    "ArgumentTypeError",
    "AugmentationError",
    "BusyError",
    "CerebroError",
    "CerebroSparkError",
    "ChangingInputError",
    "CheckpointError",
    "ColumnError",
    "EmptyInputError",
    "FeatureError",
    "FeatureSpaceError",
    "InvalidArgumentError",
    "LabelError",
    "MissingPackageError",
    "NoModelError",
    "RunError",
    "ShardError",
    "StoreError",
    "TooFewSlotsError",
    "TrackingError",
    "TrainerError",
]


class CerebroSparkError(CerebroError):
    """Base class of the errors of ``cerebro_spark``."""


class ChangingInputError(CerebroSparkError, RuntimeError):
    """A DataFrame returned different rows when it was read again."""


class MissingPackageError(CerebroSparkError, ImportError):
    """A required optional package is not installed; the message has the command that installs it."""


class TooFewSlotsError(CerebroSparkError, RuntimeError):
    """The cluster runs fewer tasks at a time than the workers requested."""


class BusyError(CerebroSparkError, RuntimeError):
    """Another run holds the task slots that this one needs."""


class RunError(CerebroSparkError, RuntimeError):
    """A run cannot start or continue; the message has the remedy."""


class CheckpointError(RunError):
    """The store no longer accepts checkpoints."""


class NoModelError(CerebroSparkError, LookupError):
    """No configuration finished its training; the message has the status of each."""
