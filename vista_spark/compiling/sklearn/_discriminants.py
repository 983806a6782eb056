"""Linear and quadratic discriminant analysis of scikit-learn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

import optimizer.compiling as ops
from vista_spark.compiling._registry import parser
from vista_spark.compiling.sklearn._checks import checked, plain, widened
from vista_spark.compiling.sklearn._kernels import scaled
from vista_spark.compiling.sklearn._linear import lower_linear_classifier

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray


@parser("sklearn.LinearDiscriminantAnalysis")
def lower_linear_discriminant(model: Any, build: ops.Builder, table: str) -> Mapping[str, ops.Output]:
    """Lower the linear classifier and its projection."""
    outputs = dict(lower_linear_classifier(model, build, table))
    scores = outputs["decision_function"].node
    single = build.width(scores) == 1
    shares = (
        build.add(ops.Complement(), build.add(ops.Sigmoid(), scores)) if single else build.add(ops.Softmax(), scores)
    )
    outputs["predict_proba"] = ops.Output(shares)
    # The library takes a probability of zero for the least normal number.
    outputs["predict_log_proba"] = ops.Output(
        build.add(ops.Function("log"), build.add(ops.Function("nonzero"), shares))
    )
    if model.solver != "lsqr":
        scalings = plain(model.scalings_)[:, : model._max_components]
        rows = checked(model, build, table)
        if model.solver == "svd":
            centre = plain(model.xbar_)
            rows = build.add(ops.Arithmetic("subtract", centre), widened(build, rows, centre))
        projected = build.add(ops.Linear(scalings.copy(), np.zeros(scalings.shape[1], scalings.dtype)), rows)
        outputs["transform"] = ops.Output(projected)
    return outputs


@parser("sklearn.QuadraticDiscriminantAnalysis")
def lower_quadratic_discriminant(model: Any, build: ops.Builder, table: str) -> Mapping[str, ops.Output]:
    """Lower a normal distribution for each class."""
    means = plain(model.means_)
    rows = widened(build, checked(model, build, table), means)
    parts = []
    for mean, rotation, scaling in zip(means, model.rotations_, model.scalings_, strict=True):
        whitening = plain(rotation) * plain(scaling) ** -0.5
        moved = build.add(ops.Arithmetic("subtract", mean), rows)
        rotated = build.add(ops.Linear(whitening, np.zeros(whitening.shape[1], whitening.dtype)), moved)
        parts.append(build.add(ops.Reduce("sum"), build.add(ops.Function("square"), rotated)))
    volume = np.array([np.log(plain(scaling)).sum() for scaling in model.scalings_])
    scores = build.add(ops.Arithmetic("add", volume), build.add(ops.Concatenate(), *parts))
    scores = build.add(ops.Cast("float64"), scaled(build, scores, -0.5))
    with np.errstate(divide="ignore"):
        scores = build.add(ops.Arithmetic("add", np.log(plain(model.priors_))), scores)
    return _discriminant(model, build, scores)


def _discriminant(model: Any, build: ops.Builder, scores: str) -> dict[str, ops.Output]:
    classes: NDArray[Any] = np.asarray(model.classes_)
    logarithms = build.add(ops.LogSoftmax(), scores)
    decision = ops.Output(scores)
    if len(classes) == 2:
        both = [build.add(ops.Select(np.array([place], np.int64)), scores) for place in (1, 0)]
        decision = ops.Output(build.add(ops.Combine("subtract"), *both), flat=True)
    return {
        "predict": ops.Output(build.add(ops.ArgMax(), scores), flat=True, labels=classes),
        "predict_proba": ops.Output(build.add(ops.Function("exp"), logarithms)),
        "predict_log_proba": ops.Output(logarithms),
        "decision_function": decision,
    }
