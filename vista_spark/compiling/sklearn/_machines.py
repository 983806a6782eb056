"""Support vector machines and kernel ridge regression of scikit-learn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

import optimizer.compiling as ops
from vista_spark.compiling._refusals import refuse
from vista_spark.compiling._registry import parser
from vista_spark.compiling.sklearn._checks import checked, plain, probabilities, widened
from vista_spark.compiling.sklearn._kernels import kernel, scaled

if TYPE_CHECKING:
    from collections.abc import Mapping


@parser("sklearn.NuSVR", "sklearn.SVR")
def lower_kernel_regressor(model: Any, build: ops.Builder, table: str) -> Mapping[str, ops.Output]:
    """Lower the regressors: kernels of the support vectors, weighed."""
    return {"predict": ops.Output(_score(model, build, table), flat=True)}


@parser("sklearn.OneClassSVM")
def lower_one_class(model: Any, build: ops.Builder, table: str) -> Mapping[str, ops.Output]:
    """Lower the outlier detector: 1 above zero, else -1."""
    score = _score(model, build, table)
    return {
        "predict": ops.Output(build.add(ops.Above(0.0, or_equal=False), score), flat=True, labels=np.array([-1, 1])),
        "decision_function": ops.Output(score, flat=True),
        "score_samples": ops.Output(scaled(build, score, 1.0, float(np.ravel(model.offset_)[0])), flat=True),
    }


@parser("sklearn.NuSVC", "sklearn.SVC")
def lower_kernel_classifier(model: Any, build: ops.Builder, table: str) -> Mapping[str, ops.Output]:
    """Lower the classifiers: a score for each pair of classes, votes, and probabilities if they were fitted."""
    classes = np.asarray(model.classes_)
    pairs = _pairs(len(classes))
    scores = build.add(_pair_sums(model, pairs), _kernel(model, build, table))
    if len(classes) == 2:
        turned = scaled(build, scores, -1.0)
        decision = ops.Output(turned, flat=True)
        place = build.add(ops.Above(0.0, or_equal=True), turned)
        outputs = {"predict": ops.Output(place, flat=True, labels=classes), "decision_function": decision}
    else:
        votes = _votes(build, scores, pairs, len(classes))
        one_vs_rest = model.decision_function_shape == "ovr"
        decided = _with_confidence(build, votes, scores, pairs, len(classes)) if one_vs_rest else scores
        best = build.add(ops.ArgMax(), decided if model.break_ties and one_vs_rest else votes)
        outputs = {"predict": ops.Output(best, flat=True, labels=classes), "decision_function": ops.Output(decided)}
    if model.break_ties and model.decision_function_shape == "ovo":
        del outputs["predict"]  # the library raises
    if model.probability is True and np.size(model._probA):
        steep, shift = plain(model._probA), plain(model._probB)
        chance = build.add(ops.Arithmetic("add", -shift), build.add(ops.Arithmetic("multiply", -steep), scores))
        chance = build.add(ops.Clip(1e-7, 1 - 1e-7), build.add(ops.Sigmoid(), chance))
        outputs |= probabilities(build, build.add(ops.Coupling(len(classes)), chance))
    return outputs


@parser("sklearn.KernelRidge")
def lower_kernel_ridge(model: Any, build: ops.Builder, table: str) -> Mapping[str, ops.Output]:
    """Lower ridge regression with a kernel."""
    if not isinstance(model.kernel, str) or model.kernel == "precomputed" or not isinstance(model.X_fit_, np.ndarray):
        raise refuse(model, f"kernel={model.kernel!r}")
    points, weights = plain(model.X_fit_), plain(model.dual_coef_)
    rows = widened(build, checked(model, build, table), points)
    similar = kernel(
        model, build, rows, points, name=model.kernel, gamma=model.gamma, degree=model.degree, coef0=model.coef0
    )
    columns = weights.reshape(len(points), -1)
    values = build.add(ops.Linear(columns, np.zeros(columns.shape[1], columns.dtype)), similar)
    return {"predict": ops.Output(values, flat=weights.ndim == 1)}


def _pairs(classes: int) -> list[tuple[int, int]]:
    return [(first, second) for first in range(classes) for second in range(first + 1, classes)]


def _votes(build: ops.Builder, scores: str, pairs: list[tuple[int, int]], classes: int) -> str:
    """Count the pairs that each class wins: the first of a pair with a score above zero, else the second."""
    ballot, start = np.zeros((len(pairs), classes)), np.zeros(classes)
    for place, (first, second) in enumerate(pairs):
        ballot[place, first], ballot[place, second] = 1, -1
        start[second] += 1
    return build.add(ops.Linear(ballot, start), build.add(ops.Compare(0.0), scores))


def _with_confidence(build: ops.Builder, votes: str, scores: str, pairs: list[tuple[int, int]], classes: int) -> str:
    """Add to votes the sums of scores, pressed into a third: they decide between equal votes only."""
    sign = np.zeros((len(pairs), classes))
    for place, (first, second) in enumerate(pairs):
        sign[place, first], sign[place, second] = 1, -1
    total = build.add(ops.Linear(sign, np.zeros(classes)), scores)
    size = scaled(build, scaled(build, build.add(ops.Function("abs"), total), 1.0, 1.0), 3.0)
    return build.add(ops.Combine("add"), votes, build.add(ops.Combine("divide"), total, size))


def _kernel(model: Any, build: ops.Builder, table: str) -> str:
    if not isinstance(model.kernel, str) or model.kernel == "precomputed":
        raise refuse(model, f"kernel={model.kernel!r}")
    rows = build.add(ops.Cast("float64"), checked(model, build, table))
    return kernel(
        model,
        build,
        rows,
        plain(model.support_vectors_),
        name=model.kernel,
        gamma=model._gamma,
        degree=model.degree,
        coef0=model.coef0,
    )


def _score(model: Any, build: ops.Builder, table: str) -> str:
    weights = plain(model._dual_coef_).reshape(-1, 1)
    return build.add(ops.Linear(weights, plain(model._intercept_)), _kernel(model, build, table))


def _pair_sums(model: Any, pairs: list[tuple[int, int]]) -> ops.Linear:
    """Weigh for each pair of classes the vectors of both, as libsvm does.

    scikit-learn turns the signs that it shows for two classes; libsvm's own vote.
    """
    dual, ends = plain(model._dual_coef_), np.cumsum([0, *model.n_support_])
    weights = np.zeros((int(ends[-1]), len(pairs)))
    for place, (first, second) in enumerate(pairs):
        rows, rivals = slice(ends[first], ends[first + 1]), slice(ends[second], ends[second + 1])
        weights[rows, place] = dual[second - 1, rows]
        weights[rivals, place] = dual[first, rivals]
    return ops.Linear(weights, plain(model._intercept_))
