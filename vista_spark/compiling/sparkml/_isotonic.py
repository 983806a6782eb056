"""Isotonic regression of Spark ML."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from optimizer.compiling import Choose, Clip, Constant, Function, Interpolate, Select
from vista_spark.compiling.sparkml._stages import refuse, stage

if TYPE_CHECKING:
    from vista_spark.compiling.sparkml._columns import Columns

__all__ = ["lower_isotonic"]


@stage("IsotonicRegressionModel")
def lower_isotonic(model: Any, columns: Columns) -> None:
    """Lower a line from each boundary to the next, level before the first and after the last."""
    bounds, values = model.boundaries.toArray(), model.predictions.toArray()
    if not len(bounds) or (np.diff(bounds) <= 0).any():
        raise refuse(model, "boundaries that do not rise")
    column = model.getFeaturesCol()
    if columns.is_read(column) and column not in columns.kinds:
        raise refuse(model, f"featuresCol={column!r}", "reads numbers or vectors: give example=")
    node = columns.value(column)
    if columns.is_vector(column):
        node = columns.add(Select(np.array([model.getFeatureIndex()])), node)
    last = columns.add(Constant(values[-1:].copy()), node)
    if len(bounds) == 1:
        line = last
    else:
        held = columns.add(Clip(float(bounds[0]), float(bounds[-1])), node)
        line = columns.add(Interpolate(bounds.copy(), values.copy(), "right", "clip"), held)
        # The search of the library finds NaN after the last boundary.
        line = columns.add(Choose(), columns.add(Function("is_nan"), node), last, line)
    columns.give(model.getPredictionCol(), line, flat=True, role="predict")
