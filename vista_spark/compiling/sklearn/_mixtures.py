"""Gaussian mixtures and the elliptic envelope of scikit-learn."""

from __future__ import annotations

from math import log, pi
from typing import TYPE_CHECKING, Any

import numpy as np

import optimizer.compiling as ops
from vista_spark.compiling._registry import parser
from vista_spark.compiling.sklearn._checks import checked, outliers, plain, widened
from vista_spark.compiling.sklearn._kernels import scaled

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray


@parser("sklearn.BayesianGaussianMixture", "sklearn.GaussianMixture")
def lower_mixture(model: Any, build: ops.Builder, table: str) -> Mapping[str, ops.Output]:
    """Lower the density of each component, in the library's form and order."""
    means, factors = plain(model.means_), plain(model.precisions_cholesky_)
    rows = checked(model, build, table)
    squares = _squares(build, rows, means, factors, model.covariance_type)
    width = means.shape[1]
    # What the library adds: numbers of Python first, which stay in the table's type, then its arrays.
    shifted = build.add(ops.Arithmetic("add", np.full(len(means), width * log(2 * pi)), rounded=True), squares)
    halved = scaled(build, shifted, -0.5)
    volumes, weights = _volumes(factors, model.covariance_type, means), _weights(model)
    density = build.add(ops.Arithmetic("add", volumes), widened(build, halved, volumes))
    joint = build.add(ops.Arithmetic("add", weights), widened(build, density, weights))
    total = build.add(ops.Reduce("logsumexp"), joint)
    return {
        "predict": ops.Output(build.add(ops.ArgMax(), joint), flat=True, labels=np.arange(len(means))),
        # Not a softmax: far from all components, where a logarithm of two is lost in the sum, each has the share of 1.
        "predict_proba": ops.Output(build.add(ops.Function("exp"), build.add(ops.Combine("subtract"), joint, total))),
        "score_samples": ops.Output(total, flat=True),
    }


def _squares(build: ops.Builder, rows: str, means: NDArray[Any], factors: NDArray[Any], kind: str) -> str:
    """Return the squared distances from each mean, in the measure of its component."""
    if kind in {"full", "tied"}:
        every = list(factors) if kind == "full" else [factors] * len(means)
        weights = np.concatenate(every, axis=1)
        shift = np.concatenate([mean @ factor for mean, factor in zip(means, every, strict=True)])
        moved = build.add(ops.Linear(weights, -shift), rows)
        # The library writes these sums into an array of the table's type.
        return build.add(
            ops.Like(), build.add(ops.Reduce("sum", len(means)), build.add(ops.Function("square"), moved)), rows
        )
    precisions = factors**2
    if kind == "diag":
        square, product, offset = precisions.T, (means * precisions).T, (means**2 * precisions).sum(axis=1)
    else:
        square = np.repeat(precisions[None], means.shape[1], axis=0)
        product, offset = means.T * precisions, (means**2).sum(axis=1) * precisions
    crossed = build.add(ops.Linear(-2 * product, offset), rows)
    squares = build.add(
        ops.Linear(square.copy(), np.zeros(len(means), means.dtype)), build.add(ops.Function("square"), rows)
    )
    return build.add(ops.Combine("add"), crossed, squares)


def _volumes(factors: NDArray[Any], kind: str, means: NDArray[Any]) -> NDArray[Any]:
    """Return the logarithms of the determinants."""
    if kind == "full":
        return np.array([np.log(np.diag(factor)).sum() for factor in factors], factors.dtype)
    if kind == "tied":
        return np.full(len(means), np.log(np.diag(factors)).sum(), factors.dtype)
    if kind == "diag":
        return np.asarray(np.log(factors).sum(axis=1), factors.dtype)
    return np.asarray(means.shape[1] * np.log(factors), factors.dtype)


def _weights(model: Any) -> NDArray[Any]:
    """Return the logarithms of the weights, and of a Bayesian mixture what it adds for not knowing the precisions."""
    start = plain(model._estimate_log_weights())  # constants
    if not hasattr(model, "degrees_of_freedom_"):
        return start
    # With its mean as the row, a component's density is what is constant in it.
    width = model.means_.shape[1]
    constant = [float(model._estimate_log_prob(mean[None])[0, place]) for place, mean in enumerate(model.means_)]
    volumes = _volumes(plain(model.precisions_cholesky_), model.covariance_type, plain(model.means_))
    constants: NDArray[Any] = start + np.array(constant) + 0.5 * width * log(2 * pi) - volumes
    return constants


@parser("sklearn.EllipticEnvelope")
def lower_envelope(model: Any, build: ops.Builder, table: str) -> Mapping[str, ops.Output]:
    """Lower the outlier detector: the distance in the measure of the covariance."""
    centre, precision = plain(model.location_), plain(model.get_precision())
    rows = widened(build, checked(model, build, table), centre, precision)
    moved = build.add(ops.Arithmetic("subtract", centre), rows)
    turned = build.add(ops.Linear(precision.T.copy(), np.zeros(len(centre))), moved)
    square = build.add(ops.Reduce("sum"), build.add(ops.Combine("multiply"), turned, moved))
    # Its root is squared again, as in the library, where rounding below zero gives NaN.
    distance = build.add(ops.Function("square"), build.add(ops.Function("sqrt"), square))
    samples = scaled(build, distance, -1.0)
    return {
        **outliers(build, scaled(build, samples, 1.0, -float(model.offset_))),
        "score_samples": ops.Output(samples, flat=True),
    }
