"""Scalers and projections of Spark ML."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from optimizer.compiling import Arithmetic, Linear, Normalise
from vista_spark.compiling._refusals import EXAMPLE, refuse
from vista_spark.compiling.sparkml._stages import stage

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from vista_spark.compiling.sparkml._columns import Columns


@stage("StandardScalerModel")
def lower_standard(model: Any, columns: Columns) -> None:
    """Lower the scaler: minus the mean, times one over the deviation; zero for a column that never varied."""
    shift = model.mean.toArray() if model.getWithMean() else None
    _scale(model, columns, shift, _inverse(model.std.toArray()) if model.getWithStd() else None, len(model.std))


@stage("RobustScalerModel")
def lower_robust(model: Any, columns: Columns) -> None:
    """Lower the scaler: minus the median, times one over the range between quantiles."""
    shift = model.median.toArray() if model.getWithCentering() else None
    scale = _inverse(model.range.toArray()) if model.getWithScaling() else None
    _scale(model, columns, shift, scale, len(model.range))


@stage("MaxAbsScalerModel")
def lower_max_abs(model: Any, columns: Columns) -> None:
    """Lower the scaler: over the greatest magnitude, where it is not zero."""
    most = model.maxAbs.toArray()
    _scale(model, columns, None, 1 / np.where(most == 0, 1.0, most), len(most))


@stage("MinMaxScalerModel")
def lower_min_max(model: Any, columns: Columns) -> None:
    """Lower the scaler. A column that never varied gets the middle of the range, but where it is NaN."""
    least, most = model.originalMin.toArray(), model.originalMax.toArray()
    low, high = float(model.getMin()), float(model.getMax())
    flat = most == least
    scale = np.where(flat, 0.0, (high - low) / np.where(flat, 1.0, most - least))
    if flat.any():
        raise refuse(model, f"columns {np.flatnonzero(flat).tolist()} that never vary")
    node = columns.vector(model.getInputCol(), len(least))
    for kind, operand in (("subtract", least), ("multiply", scale), ("add", np.full(len(least), low))):
        node = columns.add(Arithmetic(kind, operand), node)
    columns.add_column(model.getOutputCol(), node, role="transform")


@stage("Normalizer")
def lower_normalizer(model: Any, columns: Columns) -> None:
    """Lower the scaler of rows. It reads vectors of any length."""
    node, p = _some_vector(model, columns), float(model.getP())
    norm = Normalise("max", tiny=False) if math.isinf(p) else Normalise("lp", tiny=False, p=p)
    columns.add_column(model.getOutputCol(), columns.add(norm, node), role="transform")


@stage("ElementwiseProduct")
def lower_product(model: Any, columns: Columns) -> None:
    """Lower a product with a vector."""
    factors = model.getScalingVec().toArray()
    _scale(model, columns, None, factors, len(factors))


@stage("IDFModel")
def lower_idf(model: Any, columns: Columns) -> None:
    """Lower a product with inverse document frequencies."""
    factors = model.idf.toArray()
    _scale(model, columns, None, factors, len(factors))


@stage("PCAModel")
def lower_pca(model: Any, columns: Columns) -> None:
    """Lower the projection; the mean stays in."""
    axes = model.pc.toArray()
    node = columns.add(Linear(axes.copy(), np.zeros(axes.shape[1])), columns.vector(model.getInputCol(), len(axes)))
    columns.add_column(model.getOutputCol(), node, role="transform")


def _some_vector(model: Any, columns: Columns) -> str:
    node = columns.value(model.getInputCol())
    if not columns.is_vector(model.getInputCol()):
        raise refuse(model, f"inputCol={model.getInputCol()!r}", "the length of its vectors is unknown", EXAMPLE)
    return node


def _inverse(deviations: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.divide(1.0, deviations, out=np.zeros_like(deviations), where=deviations != 0)


def _scale(
    model: Any, columns: Columns, shift: NDArray[np.float64] | None, scale: NDArray[np.float64] | None, width: int
) -> None:
    node = columns.vector(model.getInputCol(), width)
    if shift is not None:
        node = columns.add(Arithmetic("subtract", np.array(shift)), node)
    if scale is not None:
        node = columns.add(Arithmetic("multiply", np.array(scale)), node)
    columns.add_column(model.getOutputCol(), node, role="transform")
