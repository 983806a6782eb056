"""Specification of a specialised classifier for workers: models, policy and output columns."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

if TYPE_CHECKING:
    from optimizer.specialization import Policy
    from udfs.arrow import BatchFunction
    from udfs.cascades import Member
    from udfs.video import DifferenceDetector

__all__ = ["LATE", "ORACLE", "REPEAT", "CompactModel", "LabelColumns", "SpecializationSpec"]

ORACLE = "oracle"
"""Name of the oracle in the column of the model that answered."""

LATE = "late"
"""Phase of a frame that came after a later frame of its stream was labelled."""

REPEAT = "repeat"
"""Phase of a frame that repeats an earlier one, whose answer it has."""


@dataclass(frozen=True, slots=True)
class CompactModel:
    """Compact model with an assumed share of the dominant classes.

    Parameters
    ----------
    name : str
        Name of the model.
    network : int
        Place of its network among those of the specification; several models share a network.
    skew : float
        Share of the dominant classes for which its top is specialised.
    """

    name: str
    network: int
    skew: float


class LabelColumns(NamedTuple):
    """Names of the columns that are added: answer, model, phase, confidence, and the reason of a bad frame."""

    label: str
    model: str
    phase: str
    confidence: str
    error: str


@dataclass(frozen=True, slots=True)
class SpecializationSpec:
    """Models and settings of a fitted specialised classifier, as sent to workers.

    Parameters
    ----------
    oracle : Member
        Model that knows all classes.
    networks : tuple of BatchFunction
        Lower layers of the compact models: each adds a column of features, a list per row.
    compacts : tuple of CompactModel
        Compact models, in the order of the policy.
    parts : str
        File with heads and training rows, as workers reach it; see :class:`LearnedParts`.
    policy : Policy
        Settings of the algorithm.
    labels : tuple
        Labels of the classes.
    label_type : DataType
        Type of the column of answers.
    columns : LabelColumns
        Names of the columns that are added.
    trains : bool
        Train the top of an expert; otherwise the classes of a trained top are weighted.
    training_timeout : float
        Seconds after which the training of an expert counts as failed.
    batch_size : int
        Frames that a compact model answers together.
    difference : DifferenceDetector, optional
        Detector of frames that repeat an earlier one. Default: models answer all frames.
    """

    oracle: Member
    networks: tuple[BatchFunction, ...]
    compacts: tuple[CompactModel, ...]
    parts: str
    policy: Policy
    labels: tuple[str | int | float | bool, ...] = field(repr=False)
    label_type: pa.DataType
    columns: LabelColumns
    trains: bool
    training_timeout: float
    batch_size: int
    difference: DifferenceDetector | None = None

    @property
    def reads(self) -> tuple[str, ...]:
        """Columns that the models read, each once; all of them read the same column."""
        functions = [self.oracle.function, *self.networks]
        return tuple(dict.fromkeys(name for function in functions for name in function.reads))

    @property
    def adds(self) -> tuple[pa.Field, ...]:
        """Columns that are added to a frame."""
        kinds = (self.label_type, pa.string(), pa.string(), pa.float64(), pa.string())
        return tuple(pa.field(name, kind) for name, kind in zip(self.columns, kinds, strict=True))
