"""Assemblers and selectors of Spark ML."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from optimizer.compiling import Select
from vista_spark.compiling._refusals import EXAMPLE, refuse
from vista_spark.compiling.sparkml._stages import stage

if TYPE_CHECKING:
    from collections.abc import Iterable

    from vista_spark.compiling.sparkml._columns import Columns

POLICIES = {"error": "raise", "skip": "drop"}
"""Policy for refused rows, by ``handleInvalid``."""


@stage("VectorAssembler")
def lower_assembler(model: Any, columns: Columns) -> None:
    """Lower the assembler. NaN and nulls in a column of numbers are bad, unless they are kept as NaN."""
    policy, parts = POLICIES.get(model.getHandleInvalid()), []
    for column in model.getInputCols():
        node = columns.value(column)
        if policy is not None and not columns.is_vector(column):
            node = columns.finite(node, "VectorAssembler", policy)
        elif policy is None and columns.is_vector(column) and columns.is_read(column):
            raise refuse(model, "handleInvalid='keep' and a column of vectors")
        parts.append(node)
    node = columns.concatenate(parts)
    columns.add_column(model.getOutputCol(), node, role="transform")


@stage("VectorSizeHint")
def lower_size_hint(model: Any, columns: Columns) -> None:
    """Lower the hint, which adds nothing: the length of the vectors is held anyway."""
    if model.getHandleInvalid() == "skip":
        raise refuse(model, "handleInvalid='skip'")
    columns.vector(model.getInputCol(), model.getSize())


@stage("VectorSlicer")
def lower_slicer(model: Any, columns: Columns) -> None:
    """Lower a choice of columns by their places."""
    if model.getNames():
        raise refuse(model, f"names={model.getNames()!r}")
    _select(model, columns, model.getInputCol(), model.getIndices())


@stage("ChiSqSelectorModel", "UnivariateFeatureSelectorModel", "VarianceThresholdSelectorModel")
def lower_selector(model: Any, columns: Columns) -> None:
    """Lower the features that were selected."""
    _select(model, columns, model.getFeaturesCol(), sorted(model.selectedFeatures))


def _select(model: Any, columns: Columns, column: str, places: Iterable[int]) -> None:
    indices = np.asarray(list(places), np.int64)
    node = columns.value(column)
    if not columns.is_vector(column):
        raise refuse(model, f"the column {column!r}", "the length of its vectors is unknown", EXAMPLE)
    chosen = columns.add(Select(indices), node)
    if node in columns.whole:
        columns.whole.add(chosen)
    columns.add_column(model.getOutputCol(), chosen, role="transform")
