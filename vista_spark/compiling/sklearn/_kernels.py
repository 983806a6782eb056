"""Kernels of scikit-learn: similarities of rows to the points of a model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

import optimizer.compiling as ops
from vista_spark.compiling._refusals import refuse

if TYPE_CHECKING:
    from numpy.typing import NDArray


__all__ = ["kernel", "scaled"]


def scaled(build: ops.Builder, rows: str, factor: float, shift: float = 0.0) -> str:
    """Multiply all columns by a number, and add another, in the type of the rows."""
    width = build.width(rows)
    if factor != 1:
        rows = build.add(ops.Arithmetic("multiply", np.full(width, float(factor))), rows)
    return build.add(ops.Arithmetic("add", np.full(width, float(shift))), rows) if shift else rows


def kernel(
    model: Any,
    build: ops.Builder,
    rows: str,
    points: NDArray[Any],
    *,
    name: str,
    gamma: float | None,
    degree: float,
    coef0: float,
) -> str:
    """Lower a kernel by its name: a column for each point."""
    rate = 1.0 / points.shape[1] if gamma is None else float(gamma)
    if name in {"linear", "poly", "polynomial", "sigmoid"}:
        product = build.add(ops.Linear(points.T.copy(), np.zeros(len(points), points.dtype)), rows)
        if name == "linear":
            return product
        moved = scaled(build, product, rate, coef0)
        return build.add(ops.Function("tanh") if name == "sigmoid" else ops.Power(float(degree)), moved)
    if name in {"rbf", "laplacian"}:
        metric = "sqeuclidean" if name == "rbf" else "manhattan"
        return build.add(ops.Function("exp"), scaled(build, build.add(ops.Distances(points, metric), rows), -rate))
    if name == "cosine":
        wide = points.astype(np.float64)
        norm = np.sqrt((wide**2).sum(axis=1, keepdims=True))
        unit = wide / np.where(norm < 10 * np.finfo(points.dtype).eps, 1, norm)
        # The library brings both to one type before it squares: in float32 a norm may be infinite.
        typed = build.add(ops.Cast("float64"), rows) if points.dtype == np.float64 else rows
        product = build.add(ops.Linear(unit.T.copy(), np.zeros(len(unit))), build.add(ops.Normalise("l2"), typed))
        # Points of float32 are normalised as float64 for rows of float64, and give float32 for those of float32.
        return build.add(ops.Like(), product, typed)
    raise refuse(model, f"kernel={name!r}")
