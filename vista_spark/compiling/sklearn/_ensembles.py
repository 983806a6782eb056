"""Ensembles of any models of scikit-learn: AdaBoost, bagging, voting, stacking."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

import optimizer.compiling as ops
from vista_spark.compiling._refusals import refuse
from vista_spark.compiling._registry import lower, parser
from vista_spark.compiling.sklearn._checks import plain
from vista_spark.compiling.sklearn._members import (
    available,
    chosen,
    column,
    joined,
    member,
    numbers,
    places,
    with_logs,
)

if TYPE_CHECKING:
    from collections.abc import Mapping


_NONE = np.zeros(0)


@parser("sklearn.AdaBoostClassifier")
def lower_adaboost_classifier(model: Any, build: ops.Builder, table: str) -> Mapping[str, ops.Output]:
    """Lower discrete AdaBoost: each member votes for a class, and a little against the others (SAMME)."""
    count = model.n_classes_
    rows = build.add(ops.Finite("as given", nan=False, who=type(model).__name__), table)
    if count == 1:
        raise refuse(model, "one class")
    votes = [
        places(model, build, member(model, estimator, build, rows, "predict"), model.classes_)
        for estimator in _grown(model)
    ]
    weights = np.array(model.estimator_weights_[: len(votes)], np.float64)
    total = build.add(ops.Votes(weights, -1 / (count - 1) * weights, count), joined(build, votes))
    # The library divides by all weights, those of members that it has no more included.
    scores = build.add(ops.Arithmetic("divide", np.full(count, float(model.estimator_weights_.sum()))), total)
    if count == 2:
        single = build.add(ops.Linear(np.array([[-1.0], [1.0]]), np.zeros(1)), scores)
        halves = build.add(ops.Linear(np.array([[-0.5, 0.5]]), np.zeros(2)), single)
        outputs = {
            "predict": chosen(build, single, model.classes_, threshold=0.0),
            "predict_proba": ops.Output(build.add(ops.Softmax(), halves)),
            "decision_function": ops.Output(single, flat=True),
        }
    else:
        over = build.add(ops.Arithmetic("divide", np.full(count, float(count - 1))), scores)
        outputs = {
            "predict": chosen(build, scores, model.classes_),
            "predict_proba": ops.Output(build.add(ops.Softmax(), over)),
            "decision_function": ops.Output(scores),
        }
    return with_logs(build, outputs)


@parser("sklearn.AdaBoostRegressor")
def lower_adaboost_regressor(model: Any, build: ops.Builder, table: str) -> Mapping[str, ops.Output]:
    """Lower AdaBoost of regressors: the weighted median of the members."""
    rows = build.add(ops.Finite("as given", nan=False, who=type(model).__name__), table)
    grown = _grown(model)
    values = joined(build, [member(model, estimator, build, rows, "predict").node for estimator in grown])
    weights = np.array(model.estimator_weights_[: len(grown)], np.float64)
    return {"predict": ops.Output(build.add(ops.WeightedMedian(weights), values), flat=True)}


def _grown(model: Any) -> list[Any]:
    return list(model.estimators_)


@parser("sklearn.BaggingClassifier")
def lower_bagging_classifier(model: Any, build: ops.Builder, table: str) -> Mapping[str, ops.Output]:
    """Lower bagging: the mean probability, or the share of the votes of members without probabilities."""
    count, size = int(model.n_classes_), float(model.n_estimators)
    lowered = [(estimator, lower(estimator, build, rows)) for estimator, rows in _parts(model, build, table)]
    parts = []
    for estimator, outputs in lowered:
        if hasattr(estimator, "predict_proba"):
            shares = _of(model, estimator, outputs, "predict_proba").node
            parts.append(_spread(model, build, shares, np.asarray(estimator.classes_), 0.0))
        else:
            # A member is fitted on places of the classes, and so predicts places.
            place = places(model, build, _of(model, estimator, outputs, "predict"), np.arange(count))
            parts.append(build.add(ops.Votes(np.ones(1), np.zeros(1), count), place))
    shares = build.add(ops.Average(_NONE, size), *parts)
    results = {"predict": chosen(build, shares, model.classes_), "predict_proba": ops.Output(shares)}
    if not hasattr(model.estimator_, "predict_log_proba"):
        results = with_logs(build, results)
    elif all("predict_log_proba" in outputs for _, outputs in lowered):
        logs = [
            _spread(model, build, outputs["predict_log_proba"].node, np.asarray(estimator.classes_), -np.inf)
            for estimator, outputs in lowered
        ]
        results["predict_log_proba"] = ops.Output(build.add(ops.LogMean(size), *logs))
    if hasattr(model, "decision_function") and all("decision_function" in outputs for _, outputs in lowered):
        scores = [outputs["decision_function"] for _, outputs in lowered]
        mean = build.add(ops.Average(_NONE, size), *(score.node for score in scores))
        results["decision_function"] = ops.Output(mean, flat=scores[0].flat)
    return results


@parser("sklearn.BaggingRegressor")
def lower_bagging_regressor(model: Any, build: ops.Builder, table: str) -> Mapping[str, ops.Output]:
    """Lower bagging of regressors: their mean."""
    values = [member(model, estimator, build, rows, "predict") for estimator, rows in _parts(model, build, table)]
    mean = build.add(ops.Average(_NONE, float(model.n_estimators)), *(value.node for value in values))
    return {"predict": ops.Output(mean, flat=values[0].flat)}


def _parts(model: Any, build: ops.Builder, table: str) -> list[tuple[Any, str]]:
    """Return the members, each with the columns that it was fitted on."""
    return [
        (estimator, column(build, table, *np.asarray(features).tolist()))
        for estimator, features in zip(model.estimators_, model.estimators_features_, strict=True)
    ]


def _of(model: Any, estimator: Any, outputs: Mapping[str, ops.Output], method: str) -> ops.Output:
    if method not in outputs:
        raise refuse(model, f"a {type(estimator).__name__} inside", f"its {method} is not compiled")
    return outputs[method]


def _spread(model: Any, build: ops.Builder, shares: str, known: np.ndarray[Any, Any], empty: float) -> str:
    """Put probabilities of some classes into columns of all of them."""
    count = int(model.n_classes_)
    if len(known) == count:
        return shares
    if build.width(shares) != len(known):
        raise refuse(model, f"a member of {len(known)} classes and {build.width(shares)} probabilities")
    zero = build.add(ops.Constant(np.full(1, empty)), shares)
    where = {int(place): column for column, place in enumerate(known)}
    return column(build, joined(build, [shares, zero]), *(where.get(place, len(known)) for place in range(count)))


@parser("sklearn.VotingClassifier")
def lower_voting_classifier(model: Any, build: ops.Builder, table: str) -> Mapping[str, ops.Output]:
    """Lower voting: the mean probability, or the class with the most votes, the first of equals."""
    weights = model._weights_not_none
    if model.voting == "soft":
        members = [member(model, estimator, build, table, "predict_proba").node for estimator in model.estimators_]
        shares = build.add(_average(weights, len(members)), *members)
        outputs = {"predict": chosen(build, shares, model.classes_), "predict_proba": ops.Output(shares)}
        if model.flatten_transform:
            outputs["transform"] = ops.Output(build.add(ops.Concatenate(), *members))
        return outputs
    if weights is not None and min(weights) < 0:
        raise refuse(model, f"weights={model.weights!r}", "a weight is negative")
    # Members are fitted on places of the classes, and so predict places.
    count = len(model.classes_)
    named = [member(model, estimator, build, table, "predict") for estimator in model.estimators_]
    votes = joined(build, [places(model, build, output, np.arange(count)) for output in named])
    hits = np.ones(len(named)) if weights is None else np.array(weights, np.float64)
    total = build.add(ops.Votes(hits, np.zeros(len(named)), count), votes)
    return {
        "predict": chosen(build, total, model.classes_),
        "transform": ops.Output(votes, dtype="int64"),
    }


@parser("sklearn.VotingRegressor")
def lower_voting_regressor(model: Any, build: ops.Builder, table: str) -> Mapping[str, ops.Output]:
    """Lower voting of regressors: their mean."""
    values = [member(model, estimator, build, table, "predict") for estimator in model.estimators_]
    if not all(value.flat for value in values):
        raise refuse(model, "members of several outputs")
    nodes = [value.node for value in values]
    mean = build.add(_average(model._weights_not_none, len(nodes)), *nodes)
    return {"predict": ops.Output(mean, flat=True), "transform": ops.Output(joined(build, nodes))}


def _average(weights: Any, count: int) -> ops.Average:
    if weights is None:
        return ops.Average(_NONE, float(count))
    factors = np.array(weights, np.float64)
    return ops.Average(factors, float(factors.sum()))


@parser("sklearn.StackingClassifier", "sklearn.StackingRegressor")
def lower_stacking(model: Any, build: ops.Builder, table: str) -> Mapping[str, ops.Output]:
    """Lower stacking: the last model reads what the others give."""
    parts = []
    for estimator, method in zip(model.estimators_, model.stack_method_, strict=True):
        output = member(model, estimator, build, table, method)
        parts.append(_stacked(model, build, output, method))
    if model.passthrough:
        parts.append(table)
    stacked = joined(build, parts)
    codes = hasattr(model, "_label_encoder") and not model.passthrough and set(model.stack_method_) == {"predict"}
    outputs = {"transform": ops.Output(stacked, dtype="int64" if codes else None)}
    for name, output in available(model, lower(model.final_estimator_, build, stacked)).items():
        if name == "transform":
            continue
        if name == "predict" and hasattr(model, "_label_encoder"):
            outputs[name] = _named(model, output)
        elif output.split is not None or name in {"predict_log_proba", "score_samples", "apply"}:
            continue
        else:
            outputs[name] = output
    return outputs


def _stacked(model: Any, build: ops.Builder, output: ops.Output, method: str) -> str:
    """Return the columns of a member; for two classes, the probability of the second."""
    if output.split is not None:
        starts = np.cumsum([0, *output.split[:-1]]).tolist()
        return column(build, output.node, *sorted(set(range(build.width(output.node))) - set(starts)))
    if method == "predict_proba" and len(model.classes_) == 2:
        return column(build, output.node, *range(1, build.width(output.node)))
    return numbers(model, build, output)


def _named(model: Any, output: ops.Output) -> ops.Output:
    """Name the classes: the last model was fitted on their places."""
    encoder = model._label_encoder
    if isinstance(encoder, list) or output.labels is None or isinstance(output.labels, tuple):
        raise refuse(model, "several labels per row")
    codes = plain(output.labels).astype(np.int64)
    return ops.Output(output.node, flat=True, labels=np.asarray(encoder.classes_)[codes])
