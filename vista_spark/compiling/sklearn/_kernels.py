"""Kernels of scikit-learn: the similarity of each row to each row that a model keeps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from optimizer.compiling import Arithmetic, Cast, Combine, Distances, Function, Like, Linear, Normalise, Power, Reduce
from vista_spark.compiling.sklearn._checks import refuse

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from optimizer.compiling import Builder

__all__ = ["covariance", "diagonal", "kernel", "scaled"]


def scaled(build: Builder, rows: str, factor: float, shift: float = 0.0) -> str:
    """Multiply all columns by a number, and add another, in the type of the rows."""
    width = build.width(rows)
    if factor != 1:
        rows = build.add(Arithmetic("multiply", np.full(width, float(factor))), rows)
    return build.add(Arithmetic("add", np.full(width, float(shift))), rows) if shift else rows


def kernel(
    model: Any,
    build: Builder,
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
        product = build.add(Linear(points.T.copy(), np.zeros(len(points), points.dtype)), rows)
        if name == "linear":
            return product
        moved = scaled(build, product, rate, coef0)
        return build.add(Function("tanh") if name == "sigmoid" else Power(float(degree)), moved)
    if name in {"rbf", "laplacian"}:
        metric = "sqeuclidean" if name == "rbf" else "manhattan"
        return build.add(Function("exp"), scaled(build, build.add(Distances(points, metric), rows), -rate))
    if name == "cosine":
        wide = points.astype(np.float64)
        norm = np.sqrt((wide**2).sum(axis=1, keepdims=True))
        unit = wide / np.where(norm < 10 * np.finfo(points.dtype).eps, 1, norm)
        # The library brings both to one type before it squares: in float32 a norm may be infinite.
        own = build.add(Cast("float64"), rows) if points.dtype == np.float64 else rows
        product = build.add(Linear(unit.T.copy(), np.zeros(len(unit))), build.add(Normalise("l2"), own))
        # Points of float32 are normalised as float64 for rows of float64, and give float32 for those of float32.
        return build.add(Like(), product, own)
    raise refuse(model, f"kernel={name!r}")


def covariance(  # noqa: PLR0911 - a return a kernel
    model: Any, build: Builder, rows: str, points: NDArray[np.float64], form: Any
) -> str:
    """Lower a kernel of a Gaussian process: a column for each point."""
    name = type(form).__name__
    if name in {"Sum", "Product"}:
        parts = [covariance(model, build, rows, points, part) for part in (form.k1, form.k2)]
        return build.add(Combine("add" if name == "Sum" else "multiply"), *parts)
    if name == "Exponentiation":
        return build.add(Power(float(form.exponent)), covariance(model, build, rows, points, form.kernel))
    if name in {"ConstantKernel", "WhiteKernel"}:
        # Rows are never the model's own, so that noise adds nothing.
        value = float(form.constant_value) if name == "ConstantKernel" else 0.0
        return build.add(Linear(np.zeros((points.shape[1], len(points))), np.full(len(points), value)), rows)
    if name == "DotProduct":
        return build.add(Linear(points.T.copy(), np.full(len(points), float(form.sigma_0) ** 2)), rows)
    if name in {"RBF", "Matern"}:
        scale = np.broadcast_to(np.asarray(form.length_scale, np.float64), points.shape[1:]).copy()
        own = build.add(Arithmetic("divide", scale), rows)
        return _stationary(model, build, own, points / scale, form)
    if name == "RationalQuadratic":
        square = build.add(Distances(points, "sqeuclidean"), rows)
        base = scaled(build, square, 1 / (2 * form.alpha * form.length_scale**2), 1.0)
        return build.add(Power(-float(form.alpha)), base)
    if name == "ExpSineSquared":
        angle = scaled(build, build.add(Distances(points, "euclidean"), rows), np.pi / form.periodicity)
        wave = scaled(build, build.add(Function("sin"), angle), 1 / form.length_scale)
        return build.add(Function("exp"), scaled(build, build.add(Function("square"), wave), -2.0))
    if name == "PairwiseKernel" and isinstance(form.metric, str):
        if form.pairwise_kernels_kwargs:
            raise refuse(model, "pairwise_kernels_kwargs of a PairwiseKernel")
        return kernel(model, build, rows, points, name=form.metric, gamma=form.gamma, degree=3, coef0=1)
    raise refuse(model, f"the kernel {form}")


def _stationary(model: Any, build: Builder, rows: str, points: NDArray[np.float64], form: Any) -> str:
    if type(form).__name__ == "RBF" or form.nu == np.inf:
        square = build.add(Distances(points, "sqeuclidean"), rows)
        return build.add(Function("exp"), scaled(build, square, -0.5))
    if form.nu not in {0.5, 1.5, 2.5}:
        raise refuse(model, f"a Matern kernel of nu={form.nu}", "needs a Bessel function, which has no translation")
    distance = scaled(build, build.add(Distances(points, "euclidean"), rows), float(np.sqrt(2 * form.nu)))
    decay = build.add(Function("exp"), scaled(build, distance, -1.0))
    if form.nu == 0.5:
        return decay
    polynomial = scaled(build, distance, 1.0, 1.0)
    if form.nu == 2.5:
        third = scaled(build, build.add(Function("square"), distance), 1 / 3)
        polynomial = build.add(Combine("add"), polynomial, third)
    return build.add(Combine("multiply"), polynomial, decay)


def diagonal(model: Any, build: Builder, rows: str, form: Any) -> str:
    """Lower what a kernel of a Gaussian process gives for each row with itself: one column."""
    name = type(form).__name__
    if name in {"Sum", "Product"}:
        parts = [diagonal(model, build, rows, part) for part in (form.k1, form.k2)]
        return build.add(Combine("add" if name == "Sum" else "multiply"), *parts)
    if name == "Exponentiation":
        return build.add(Power(float(form.exponent)), diagonal(model, build, rows, form.kernel))
    if name == "DotProduct":
        own = build.add(Reduce("sum"), build.add(Function("square"), rows))
        return scaled(build, own, 1.0, float(form.sigma_0) ** 2)
    values = {"ConstantKernel": "constant_value", "WhiteKernel": "noise_level"}
    if name not in {*values, "RBF", "Matern", "RationalQuadratic", "ExpSineSquared"}:
        raise refuse(model, f"the kernel {form}")
    value = float(getattr(form, values[name])) if name in values else 1.0
    return build.add(Linear(np.zeros((build.width(rows), 1)), np.full(1, value)), rows)
