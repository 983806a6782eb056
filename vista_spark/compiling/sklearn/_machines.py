"""Support vector machines with kernels, as libsvm decides: scores of pairs, votes, coupled probabilities."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from optimizer.compiling import (
    Above,
    ArgMax,
    Arithmetic,
    Cast,
    Clip,
    Combine,
    Compare,
    Coupling,
    Function,
    Linear,
    OrderedSum,
    Output,
    Sigmoid,
)
from vista_spark.compiling._registry import parser
from vista_spark.compiling.sklearn._checks import checked, plain, probabilities, refuse
from vista_spark.compiling.sklearn._kernels import kernel, scaled

if TYPE_CHECKING:
    from collections.abc import Mapping

    from optimizer.compiling import Builder

__all__ = ["lower_kernel_classifier", "lower_kernel_regressor", "lower_one_class", "one_against_one"]

# The least number below zero: what is above it is zero or more.
_BELOW_ZERO = float(np.nextafter(0, -1))


@parser("sklearn.NuSVR", "sklearn.SVR")
def lower_kernel_regressor(model: Any, build: Builder, table: str) -> Mapping[str, Output]:
    """Lower the regressors: kernels of the support vectors, weighed."""
    return {"predict": Output(_score(model, build, table), flat=True)}


@parser("sklearn.OneClassSVM")
def lower_one_class(model: Any, build: Builder, table: str) -> Mapping[str, Output]:
    """Lower the outlier detector: 1 above zero, else -1."""
    score = _score(model, build, table)
    return {
        "predict": Output(build.add(Above(0.0, or_equal=False), score), flat=True, labels=np.array([-1, 1])),
        "decision_function": Output(score, flat=True),
        "score_samples": Output(scaled(build, score, 1.0, float(np.ravel(model.offset_)[0])), flat=True),
    }


@parser("sklearn.NuSVC", "sklearn.SVC")
def lower_kernel_classifier(model: Any, build: Builder, table: str) -> Mapping[str, Output]:
    """Lower the classifiers: a score for each pair of classes, votes, and probabilities if they were fitted."""
    classes = np.asarray(model.classes_)
    pairs = _pairs(len(classes))
    scores = build.add(_pair_sums(model, pairs), _kernel(model, build, table))
    if len(classes) == 2:
        turned = scaled(build, scores, -1.0)
        decision = Output(turned, flat=True)
        # The second class has what is not above zero, NaN too.
        place = build.add(Cast("int64"), build.add(Function("not"), build.add(Compare(0.0), scores)))
        outputs = {"predict": Output(place, flat=True, labels=classes), "decision_function": decision}
    else:
        votes = _votes(build, scores, pairs, len(classes), 0.0)
        rivals = votes
        if model.decision_function_shape == "ovr":
            wins = _votes(build, scores, pairs, len(classes), _BELOW_ZERO)
            rivals = _with_confidence(build, wins, scores, pairs, len(classes))
        best = build.add(ArgMax(), rivals if model.break_ties and model.decision_function_shape == "ovr" else votes)
        decided = rivals if model.decision_function_shape == "ovr" else scores
        outputs = {"predict": Output(best, flat=True, labels=classes), "decision_function": Output(decided)}
    if model.break_ties and model.decision_function_shape == "ovo":
        del outputs["predict"]  # the library raises
    if model.probability is True and np.size(model._probA):  # the public names are gone
        steep, shift = plain(model._probA), plain(model._probB)
        chance = build.add(Arithmetic("add", -shift), build.add(Arithmetic("multiply", -steep), scores))
        chance = build.add(Clip(1e-7, 1 - 1e-7), build.add(Sigmoid(), chance))
        outputs |= probabilities(build, build.add(Coupling(len(classes)), chance))
    return outputs


def one_against_one(build: Builder, second: str, confidence: str, classes: int) -> str:
    """Give the scores of classes from who wins each pair, 1 for the second, and how surely: the library's tie-break."""
    pairs = _pairs(classes)
    first = scaled(build, second, -1.0, 1.0)
    return _with_confidence(
        build, _counted(build, first, pairs, classes), scaled(build, confidence, -1.0), pairs, classes
    )


def _pairs(classes: int) -> list[tuple[int, int]]:
    return [(one, other) for one in range(classes) for other in range(one + 1, classes)]


def _votes(build: Builder, scores: str, pairs: list[tuple[int, int]], classes: int, threshold: float) -> str:
    return _counted(build, build.add(Compare(threshold), scores), pairs, classes)


def _counted(build: Builder, first: str, pairs: list[tuple[int, int]], classes: int) -> str:
    """Count the votes of each class, where a number is 1 if the first of its pair wins, else 0."""
    ballot, start = np.zeros((len(pairs), classes)), np.zeros(classes)
    for place, (one, other) in enumerate(pairs):
        ballot[place, one], ballot[place, other] = 1, -1
        start[other] += 1
    return build.add(Linear(ballot, start), first)


def _with_confidence(build: Builder, votes: str, scores: str, pairs: list[tuple[int, int]], classes: int) -> str:
    """Add to votes the sums of scores, pressed into a third: they decide between equal votes only."""
    sign = np.zeros((len(pairs), classes))
    for place, (one, other) in enumerate(pairs):
        sign[place, one], sign[place, other] = 1, -1
    total = build.add(Linear(sign, np.zeros(classes)), scores)
    size = scaled(build, scaled(build, build.add(Function("abs"), total), 1.0, 1.0), 3.0)
    return build.add(Combine("add"), votes, build.add(Combine("divide"), total, size))


def _kernel(model: Any, build: Builder, table: str) -> str:
    if not isinstance(model.kernel, str) or model.kernel == "precomputed":
        raise refuse(model, f"kernel={model.kernel!r}")
    rows = build.add(Cast("float64"), checked(model, build, table))
    return kernel(
        model,
        build,
        rows,
        plain(model.support_vectors_),
        name=model.kernel,
        gamma=model._gamma,  # "scale" and "auto", as numbers
        degree=model.degree,
        coef0=model.coef0,
    )


def _score(model: Any, build: Builder, table: str) -> str:
    weights = plain(model._dual_coef_).reshape(-1)
    own = OrderedSum(np.arange(len(weights)), np.array([0, len(weights)]), weights, plain(model._intercept_))
    return build.add(own, _kernel(model, build, table))


def _pair_sums(model: Any, pairs: list[tuple[int, int]]) -> OrderedSum:
    """Sum for each pair of classes the vectors of the first and then of the second, as libsvm does.

    scikit-learn turns the signs that it shows for two classes; libsvm's own vote.
    """
    dual, ends = plain(model._dual_coef_), np.cumsum([0, *model.n_support_])
    columns, weights = [], []
    for one, other in pairs:
        own, rival = np.arange(ends[one], ends[one + 1]), np.arange(ends[other], ends[other + 1])
        columns.append(np.concatenate([own, rival]))
        weights.append(np.concatenate([dual[other - 1, own], dual[one, rival]]))
    starts = np.cumsum([0, *(len(part) for part in columns)])
    return OrderedSum(np.concatenate(columns), starts, np.concatenate(weights), plain(model._intercept_))
