"""Linear and quadratic discriminant analysis, and the nearest centroid."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from optimizer.compiling import (
    ArgMax,
    Arithmetic,
    Cast,
    Combine,
    Complement,
    Concatenate,
    Distances,
    Finite,
    Function,
    Linear,
    LogSoftmax,
    Output,
    Reduce,
    Select,
    Sigmoid,
    Softmax,
)
from vista_spark.compiling._registry import parser
from vista_spark.compiling.sklearn._checks import checked, plain, refuse, widened
from vista_spark.compiling.sklearn._clusters import nearest, squared_distances
from vista_spark.compiling.sklearn._kernels import scaled
from vista_spark.compiling.sklearn._linear import lower_linear_classifier

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from optimizer.compiling import Builder

__all__ = ["lower_centroid", "lower_linear_discriminant", "lower_quadratic_discriminant"]


@parser("sklearn.LinearDiscriminantAnalysis")
def lower_linear_discriminant(model: Any, build: Builder, table: str) -> Mapping[str, Output]:
    """Lower the linear classifier and its projection."""
    outputs = dict(lower_linear_classifier(model, build, table))
    scores = outputs["decision_function"].node
    single = build.width(scores) == 1
    shares = build.add(Complement(), build.add(Sigmoid(), scores)) if single else build.add(Softmax(), scores)
    outputs["predict_proba"] = Output(shares)
    # The library takes a probability of zero for the least normal number.
    outputs["predict_log_proba"] = Output(build.add(Function("log"), build.add(Function("nonzero"), shares)))
    if model.solver != "lsqr":
        scalings = plain(model.scalings_)[:, : model._max_components]
        rows = checked(model, build, table)
        if model.solver == "svd":
            centre = plain(model.xbar_)
            rows = build.add(Arithmetic("subtract", centre), widened(build, rows, centre))
        projected = build.add(Linear(scalings.copy(), np.zeros(scalings.shape[1], scalings.dtype)), rows)
        outputs["transform"] = Output(projected)
    return outputs


@parser("sklearn.QuadraticDiscriminantAnalysis")
def lower_quadratic_discriminant(model: Any, build: Builder, table: str) -> Mapping[str, Output]:
    """Lower a normal distribution for each class."""
    means = plain(model.means_)
    rows = widened(build, checked(model, build, table), means)
    parts = []
    for mean, rotation, scaling in zip(means, model.rotations_, model.scalings_, strict=True):
        own = plain(rotation) * plain(scaling) ** -0.5
        moved = build.add(Arithmetic("subtract", mean), rows)
        rotated = build.add(Linear(own, np.zeros(own.shape[1], own.dtype)), moved)
        parts.append(build.add(Reduce("sum"), build.add(Function("square"), rotated)))
    volume = np.array([np.log(plain(scaling)).sum() for scaling in model.scalings_])
    scores = build.add(Arithmetic("add", volume), build.add(Concatenate(), *parts))
    scores = build.add(Cast("float64"), scaled(build, scores, -0.5))
    with np.errstate(divide="ignore"):
        scores = build.add(Arithmetic("add", np.log(plain(model.priors_))), scores)
    return _discriminant(model, build, scores)


@parser("sklearn.NearestCentroid")
def lower_centroid(model: Any, build: Builder, table: str) -> Mapping[str, Output]:
    """Lower the nearest centroid; scores weigh features by their spread and classes by their priors."""
    classes, centroids, metric = np.asarray(model.classes_), plain(model.centroids_), model.metric
    if metric not in {"euclidean", "manhattan"}:
        raise refuse(model, f"metric={metric!r}")
    rows = checked(model, build, table)
    spread = plain(model.within_class_std_dev_)
    spread = np.where(spread != 0, spread, 1)
    # The library looks once more at what it has divided.
    divided = build.add(Arithmetic("divide", spread), build.add(Cast("float64"), rows))
    wide = build.add(Finite("float64", nan=False, who=type(model).__name__), divided)
    if metric == "euclidean":
        distance = build.add(Function("sqrt"), squared_distances(build, wide, centroids / spread))
    else:
        distance = build.add(Distances(centroids / spread, metric), wide)
    with np.errstate(divide="ignore"):
        prior = 2 * np.log(plain(model.class_prior_))
    scores = build.add(Arithmetic("add", prior), scaled(build, build.add(Function("square"), distance), -1.0))
    outputs = _discriminant(model, build, scores)
    if np.isclose(model.class_prior_, 1 / len(classes)).all():
        outputs["predict"] = Output(nearest(build, rows, centroids, metric), flat=True, labels=classes)
    return outputs if metric == "euclidean" else {"predict": outputs["predict"]}


def _discriminant(model: Any, build: Builder, scores: str) -> dict[str, Output]:
    classes: NDArray[Any] = np.asarray(model.classes_)
    logarithms = build.add(LogSoftmax(), scores)
    decision = Output(scores)
    if len(classes) == 2:
        both = [build.add(Select(np.array([place], np.int64)), scores) for place in (1, 0)]
        decision = Output(build.add(Combine("subtract"), *both), flat=True)
    return {
        "predict": Output(build.add(ArgMax(), scores), flat=True, labels=classes),
        "predict_proba": Output(build.add(Function("exp"), logarithms)),
        "predict_log_proba": Output(logarithms),
        "decision_function": decision,
    }
