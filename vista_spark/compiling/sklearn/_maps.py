"""Projections and kernel maps of scikit-learn, and those that solve a problem for each row, which are refused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from optimizer.compiling import AdditiveChi2, Arithmetic, Cast, CountSketch, KernelCentre, Linear, Output, Ufunc, Within
from vista_spark.compiling._registry import parser
from vista_spark.compiling.sklearn._checks import checked, plain, refuse, widened
from vista_spark.compiling.sklearn._kernels import kernel, scaled

if TYPE_CHECKING:
    from collections.abc import Mapping

    from optimizer.compiling import Builder

__all__ = [
    "lower_additive",
    "lower_analysis",
    "lower_centerer",
    "lower_fourier",
    "lower_ica",
    "lower_kernel_pca",
    "lower_nystroem",
    "lower_random",
    "lower_sketch",
    "lower_skewed",
    "refuse_solver",
]


@parser("sklearn.GaussianRandomProjection", "sklearn.SparseRandomProjection")
def lower_random(model: Any, build: Builder, table: str) -> Mapping[str, Output]:
    """Lower the projection on random directions."""
    given = model.components_
    components = plain(given.toarray() if hasattr(given, "toarray") else given)
    rows = build.add(
        Linear(components.T.copy(), np.zeros(len(components), components.dtype)), checked(model, build, table)
    )
    return {"transform": Output(rows)}


@parser("sklearn.FastICA")
def lower_ica(model: Any, build: Builder, table: str) -> Mapping[str, Output]:
    """Lower the unmixing matrix."""
    rows, components = checked(model, build, table), plain(model.components_)
    if model.whiten:
        rows = build.add(Arithmetic("subtract", plain(model.mean_)), rows)
    return {
        "transform": Output(build.add(Linear(components.T.copy(), np.zeros(len(components), components.dtype)), rows))
    }


@parser("sklearn.FactorAnalysis")
def lower_analysis(model: Any, build: Builder, table: str) -> Mapping[str, Output]:
    """Lower the expected factors, as two products."""
    components = plain(model.components_)
    weighted = components / model.noise_variance_
    spread = np.linalg.inv(np.eye(len(components)) + weighted @ components.T)
    mean = plain(model.mean_)
    rows = build.add(Arithmetic("subtract", mean), widened(build, checked(model, build, table), mean))
    for weights in (weighted.T, spread):
        rows = build.add(Linear(weights.copy(), np.zeros(weights.shape[1], weights.dtype)), rows)
    return {"transform": Output(rows)}


@parser("sklearn.KernelCenterer")
def lower_centerer(model: Any, build: Builder, table: str) -> Mapping[str, Output]:
    """Lower the centring of a kernel."""
    rows = checked(model, build, table)
    return {"transform": Output(build.add(KernelCentre(plain(model.K_fit_rows_), float(model.K_fit_all_)), rows))}


@parser("sklearn.KernelPCA")
def lower_kernel_pca(model: Any, build: Builder, table: str) -> Mapping[str, Output]:
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
    centred = model._centerer  # there is no public way
    similar = build.add(KernelCentre(plain(centred.K_fit_rows_), float(centred.K_fit_all_)), similar)
    vectors, values = plain(model.eigenvectors_), plain(model.eigenvalues_)
    scaled_vectors = np.zeros_like(vectors)
    there = np.flatnonzero(values)
    scaled_vectors[:, there] = vectors[:, there] / np.sqrt(values[there])
    bias = np.zeros(scaled_vectors.shape[1], scaled_vectors.dtype)
    return {"transform": Output(build.add(Linear(scaled_vectors, bias), similar))}


@parser("sklearn.Nystroem")
def lower_nystroem(model: Any, build: Builder, table: str) -> Mapping[str, Output]:
    """Lower the kernel with some training rows, and its normalisation."""
    if callable(model.kernel) or model.kernel_params:
        raise refuse(model, f"kernel={model.kernel!r} and kernel_params={model.kernel_params!r}")
    similar = kernel(
        model,
        build,
        checked(model, build, table),
        plain(model.components_),
        name=model.kernel,
        gamma=model.gamma,
        degree=3 if model.degree is None else model.degree,
        coef0=1 if model.coef0 is None else model.coef0,
    )
    weights = plain(model.normalization_).T.copy()
    return {"transform": Output(build.add(Linear(weights, np.zeros(weights.shape[1], weights.dtype)), similar))}


@parser("sklearn.RBFSampler")
def lower_fourier(model: Any, build: Builder, table: str) -> Mapping[str, Output]:
    """Lower the random Fourier features."""
    rows = build.add(Linear(plain(model.random_weights_), plain(model.random_offset_)), checked(model, build, table))
    rows = build.add(Ufunc("cos"), rows)
    return {"transform": Output(scaled(build, rows, (2.0 / model.n_components) ** 0.5))}


@parser("sklearn.SkewedChi2Sampler")
def lower_skewed(model: Any, build: Builder, table: str) -> Mapping[str, Output]:
    """Lower the random Fourier features of logarithms."""
    rows = checked(model, build, table)
    width = build.width(rows)
    least = np.full(width, np.nextafter(-float(model.skewedness), np.inf))
    reason = f"a number at or below {-model.skewedness}, which SkewedChi2Sampler does not take"
    rows = build.add(Within(least, np.full(width, np.inf), reason), rows)
    rows = build.add(Ufunc("log"), build.add(Arithmetic("add", np.full(width, float(model.skewedness))), rows))
    rows = build.add(Linear(plain(model.random_weights_), plain(model.random_offset_)), rows)
    return {
        "transform": Output(scaled(build, build.add(Ufunc("cos"), rows), np.sqrt(2.0) / np.sqrt(model.n_components)))
    }


@parser("sklearn.AdditiveChi2Sampler")
def lower_additive(model: Any, build: Builder, table: str) -> Mapping[str, Output]:
    """Lower the samples of the spectrum."""
    if build.kind(table) != "float":
        raise refuse(model, "a table of whole numbers", "rounds its results to whole numbers: give it floats")
    intervals = {1: 0.8, 2: 0.5, 3: 0.4}
    interval = intervals[model.sample_steps] if model.sample_interval is None else model.sample_interval
    rows = checked(model, build, table)
    width = build.width(rows)
    reason = "a number below zero, which AdditiveChi2Sampler does not take"
    rows = build.add(Within(np.zeros(width), np.full(width, np.inf), reason), rows)
    return {"transform": Output(build.add(AdditiveChi2(int(model.sample_steps), float(interval)), rows))}


@parser("sklearn.PolynomialCountSketch")
def lower_sketch(model: Any, build: Builder, table: str) -> Mapping[str, Output]:
    """Lower the sketches; a constant is one more column."""
    # By a root that numpy has of float64, so that a table of float32 is one no longer.
    rows = scaled(build, build.add(Cast("float64"), checked(model, build, table)), float(np.sqrt(model.gamma)))
    width = build.width(rows)
    if model.coef0 != 0:
        whole = np.eye(width, width + 1)
        bias = np.zeros(width + 1)
        bias[-1] = np.sqrt(model.coef0)
        rows = build.add(Linear(whole, bias), rows)
    places = np.asarray(model.indexHash_, np.int64)
    signs = np.asarray(model.bitHash_, np.float64)
    return {"transform": Output(build.add(CountSketch(places, signs, int(model.n_components)), rows))}


@parser(
    "sklearn.DictionaryLearning",
    "sklearn.LatentDirichletAllocation",
    "sklearn.MiniBatchDictionaryLearning",
    "sklearn.MiniBatchNMF",
    "sklearn.MiniBatchSparsePCA",
    "sklearn.NMF",
    "sklearn.SparseCoder",
    "sklearn.SparsePCA",
)
def refuse_solver(model: Any, build: Builder, table: str) -> Mapping[str, Output]:  # noqa: ARG001 - as all parsers
    """Refuse: an iteration runs until it converges, for all rows together."""
    raise refuse(model, "its fitted components", "has no translation: it solves a problem for each row")
