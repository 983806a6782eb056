"""Projections of scikit-learn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

import optimizer.compiling as ops
from vista_spark.compiling._refusals import refuse
from vista_spark.compiling._registry import parser
from vista_spark.compiling.sklearn._checks import checked, plain, widened
from vista_spark.compiling.sklearn._kernels import kernel

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray


@parser("sklearn.GaussianRandomProjection", "sklearn.SparseRandomProjection")
def lower_random(model: Any, build: ops.Builder, table: str) -> Mapping[str, ops.Output]:
    """Lower the projection on random directions."""
    return {"transform": ops.Output(_projected(build, checked(model, build, table), plain(model.components_)))}


@parser("sklearn.FastICA")
def lower_ica(model: Any, build: ops.Builder, table: str) -> Mapping[str, ops.Output]:
    """Lower the unmixing matrix."""
    rows, components = checked(model, build, table), plain(model.components_)
    if model.whiten:
        rows = build.add(ops.Arithmetic("subtract", plain(model.mean_)), rows)
    return {"transform": ops.Output(_projected(build, rows, components))}


@parser("sklearn.FactorAnalysis")
def lower_analysis(model: Any, build: ops.Builder, table: str) -> Mapping[str, ops.Output]:
    """Lower the expected factors, as two products."""
    components = plain(model.components_)
    weighted = components / model.noise_variance_
    spread = np.linalg.inv(np.eye(len(components)) + weighted @ components.T)
    mean = plain(model.mean_)
    rows = build.add(ops.Arithmetic("subtract", mean), widened(build, checked(model, build, table), mean))
    for weights in (weighted.T, spread):
        rows = build.add(ops.Linear(weights.copy(), np.zeros(weights.shape[1], weights.dtype)), rows)
    return {"transform": ops.Output(rows)}


@parser("sklearn.KernelPCA")
def lower_kernel_pca(model: Any, build: ops.Builder, table: str) -> Mapping[str, ops.Output]:
    """Lower the kernel, its centring and the projection."""
    if callable(model.kernel) or model.kernel == "precomputed":
        raise refuse(model, f"kernel={model.kernel!r}")
    rows = checked(model, build, table)
    similar = kernel(
        model,
        build,
        rows,
        plain(model.X_fit_),
        name=model.kernel,
        gamma=model.gamma_,
        degree=model.degree,
        coef0=model.coef0,
    )
    centerer = model._centerer
    vectors, values = plain(model.eigenvectors_), plain(model.eigenvalues_)
    axes = np.zeros_like(vectors)
    nonzero = np.flatnonzero(values)
    axes[:, nonzero] = vectors[:, nonzero] / np.sqrt(values[nonzero])
    # Centring a kernel is linear in its rows: subtract the mean of the row and of each point, add the mean of all.
    bias = (float(centerer.K_fit_all_) - plain(centerer.K_fit_rows_)) @ axes
    return {"transform": ops.Output(build.add(ops.Linear(axes - axes.mean(axis=0), bias), similar))}


@parser("sklearn.PCA", "sklearn.IncrementalPCA")
def lower_pca(model: Any, build: ops.Builder, table: str) -> Mapping[str, ops.Output]:
    """Lower the projection, as the library computes it: the projected mean comes off afterwards."""
    components = plain(model.components_)
    shift = -(plain(model.mean_) @ components.T)
    rows = build.add(ops.Linear(components.T.copy(), shift), checked(model, build, table))
    if model.whiten:
        scale = np.sqrt(plain(model.explained_variance_))
        floor = np.finfo(scale.dtype).eps
        rows = build.add(ops.Arithmetic("divide", np.where(scale < floor, floor, scale)), rows)
    return {"transform": ops.Output(rows)}


@parser("sklearn.TruncatedSVD")
def lower_svd(model: Any, build: ops.Builder, table: str) -> Mapping[str, ops.Output]:
    """Lower the projection."""
    return {"transform": ops.Output(_projected(build, checked(model, build, table), plain(model.components_)))}


@parser("sklearn.PLSRegression")
def lower_latent(model: Any, build: ops.Builder, table: str) -> Mapping[str, ops.Output]:
    """Lower the regression, and the projection of the rows."""
    rows = build.add(ops.Arithmetic("subtract", plain(model._x_mean)), checked(model, build, table))
    weights, bias = plain(model.coef_).T.copy(), plain(model.intercept_)
    values = build.add(ops.Linear(weights, np.broadcast_to(bias, weights.shape[1:]).copy()), rows)
    rotations = plain(model.x_rotations_)
    scored = build.add(ops.Arithmetic("divide", plain(model._x_std)), rows)
    scores = build.add(ops.Linear(rotations, np.zeros(rotations.shape[1], rotations.dtype)), scored)
    return {"predict": ops.Output(values, flat=bool(model._predict_1d)), "transform": ops.Output(scores)}


def _projected(build: ops.Builder, rows: str, components: NDArray[Any]) -> str:
    return build.add(ops.Linear(components.T.copy(), np.zeros(len(components), components.dtype)), rows)
