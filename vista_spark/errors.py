"""Errors and warnings of the RUN room: one tree over :class:`optimizer.errors.CerebroError`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from optimizer.errors import (
    ArgumentTypeError,
    CerebroError,
    ColumnError,
    EmptyInputError,
    InvalidArgumentError,
    LabelError,
    UnknownLayerError,
)
from udfs.driver import JavaNotFoundError, TrackingError
from udfs.occlusion import VerificationError
from udfs.roster import UnknownModelError
from udfs.weights import WeightsError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = [
    "ArgumentTypeError",
    "CerebroError",
    "ColumnError",
    "DiskFullError",
    "DuplicateIdError",
    "EmptyInputError",
    "ExistingFileError",
    "ExplanationCancelledError",
    "InvalidArgumentError",
    "JavaNotFoundError",
    "LabelError",
    "MissingIdError",
    "NoExecutorError",
    "PluginNotLoadedError",
    "RandomWeightsWarning",
    "TrackingError",
    "UnknownLayerError",
    "UnknownModelError",
    "VerificationError",
    "VistaError",
    "WeightsError",
]


class VistaError(CerebroError):
    """Base of what ``vista_spark`` raises on purpose."""


class DuplicateIdError(VistaError, ValueError):
    """Rows of one table that share an id: a join would multiply them, and nothing tells which one is meant."""


class MissingIdError(VistaError, ValueError):
    """Rows without an id, or without their counterpart in the other table, where ``errors="raise"``."""


class DiskFullError(VistaError, OSError):
    """Tables that do not fit into storage memory go to disk, and the disk is full; the message has the remedies."""


class ExistingFileError(VistaError, FileExistsError):
    """A file to write exists; the message says how to replace it."""


class ExplanationCancelledError(VistaError):
    """A request for an explanation was cancelled before its heat map was complete.

    Parameters
    ----------
    heat_map : array of float32, optional
        The heat map so far; NaN where it is not computed. ``None`` where the request had not begun.
    """

    def __init__(self, heat_map: NDArray[np.float32] | None = None) -> None:
        self.heat_map = heat_map
        if heat_map is None:
            super().__init__("cancelled before the first place was computed")
            return
        done = int((heat_map == heat_map).sum())  # NaN is not computed
        super().__init__(f"cancelled after {done} of {heat_map.size} places; the error's heat_map has their values")


class NoExecutorError(VistaError, TimeoutError):
    """No machine of the cluster has room for an executor as the session wants it: every job would wait for ever."""


class PluginNotLoadedError(VistaError, RuntimeError):
    """Spark runs without the JVM plugin that a function needs; the message says how to load it."""


class RandomWeightsWarning(UserWarning):
    """A network runs without trained weights: its features and explanations say nothing of the images."""
