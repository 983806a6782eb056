"""Ensembles of any models: AdaBoost, bagging, voting, stacking."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from optimizer.compiling import (
    Arithmetic,
    Average,
    Concatenate,
    Constant,
    Finite,
    Linear,
    LogMean,
    Output,
    Softmax,
    Votes,
    WeightedMedian,
)
from vista_spark.compiling._registry import lower, parser
from vista_spark.compiling.sklearn._checks import plain, refuse
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

    from optimizer.compiling import Builder

__all__ = [
    "lower_adaboost_classifier",
    "lower_adaboost_regressor",
    "lower_bagging_classifier",
    "lower_bagging_regressor",
    "lower_stacking",
    "lower_voting_classifier",
    "lower_voting_regressor",
]

_NONE = np.zeros(0)


@parser("sklearn.AdaBoostClassifier")
def lower_adaboost_classifier(model: Any, build: Builder, table: str) -> Mapping[str, Output]:
    """Lower discrete AdaBoost: each member votes for a class, and a little against the others (SAMME)."""
    count = model.n_classes_
    rows = build.add(Finite("as given", nan=False, who=type(model).__name__), table)
    if count == 1:
        raise refuse(model, "one class")
    votes = [places(model, build, member(model, one, build, rows, "predict"), model.classes_) for one in _grown(model)]
    weights = np.array(model.estimator_weights_[: len(votes)], np.float64)
    total = build.add(Votes(weights, -1 / (count - 1) * weights, count), joined(build, votes))
    # The library divides by all weights, those of members that it has no more included.
    scores = build.add(Arithmetic("divide", np.full(count, float(model.estimator_weights_.sum()))), total)
    if count == 2:  # one score, and halves of it for the two classes
        single = build.add(Linear(np.array([[-1.0], [1.0]]), np.zeros(1)), scores)
        halves = build.add(Linear(np.array([[-0.5, 0.5]]), np.zeros(2)), single)
        outputs = {
            "predict": chosen(build, single, model.classes_, threshold=0.0),
            "predict_proba": Output(build.add(Softmax(), halves)),
            "decision_function": Output(single, flat=True),
        }
    else:
        over = build.add(Arithmetic("divide", np.full(count, float(count - 1))), scores)
        outputs = {
            "predict": chosen(build, scores, model.classes_),
            "predict_proba": Output(build.add(Softmax(), over)),
            "decision_function": Output(scores),
        }
    return with_logs(build, outputs)


@parser("sklearn.AdaBoostRegressor")
def lower_adaboost_regressor(model: Any, build: Builder, table: str) -> Mapping[str, Output]:
    """Lower AdaBoost of regressors: the weighted median of the members."""
    rows = build.add(Finite("as given", nan=False, who=type(model).__name__), table)
    grown = _grown(model)
    values = joined(build, [member(model, one, build, rows, "predict").node for one in grown])
    weights = np.array(model.estimator_weights_[: len(grown)], np.float64)
    return {"predict": Output(build.add(WeightedMedian(weights), values), flat=True)}


def _grown(model: Any) -> list[Any]:
    return list(model.estimators_)


@parser("sklearn.BaggingClassifier")
def lower_bagging_classifier(model: Any, build: Builder, table: str) -> Mapping[str, Output]:
    """Lower bagging: the mean probability, or the share of the votes of members without probabilities."""
    count, size = int(model.n_classes_), float(model.n_estimators)
    lowered = [(one, lower(one, build, rows)) for one, rows in _parts(model, build, table)]
    parts = []
    for one, outputs in lowered:
        if hasattr(one, "predict_proba"):
            shares = _of(model, one, outputs, "predict_proba").node
            parts.append(_spread(model, build, shares, np.asarray(one.classes_), 0.0))
        else:
            # A member is fitted on places of the classes, and so predicts places.
            place = places(model, build, _of(model, one, outputs, "predict"), np.arange(count))
            parts.append(build.add(Votes(np.ones(1), np.zeros(1), count), place))
    shares = build.add(Average(_NONE, size), *parts)
    given = {"predict": chosen(build, shares, model.classes_), "predict_proba": Output(shares)}
    if not hasattr(model.estimator_, "predict_log_proba"):
        given = with_logs(build, given)
    elif all("predict_log_proba" in outputs for _, outputs in lowered):
        logs = [
            _spread(model, build, outputs["predict_log_proba"].node, np.asarray(one.classes_), -np.inf)
            for one, outputs in lowered
        ]
        given["predict_log_proba"] = Output(build.add(LogMean(size), *logs))
    if hasattr(model, "decision_function") and all("decision_function" in outputs for _, outputs in lowered):
        scores = [outputs["decision_function"] for _, outputs in lowered]
        mean = build.add(Average(_NONE, size), *(score.node for score in scores))
        given["decision_function"] = Output(mean, flat=scores[0].flat)
    return given


@parser("sklearn.BaggingRegressor")
def lower_bagging_regressor(model: Any, build: Builder, table: str) -> Mapping[str, Output]:
    """Lower bagging of regressors: their mean."""
    values = [member(model, one, build, rows, "predict") for one, rows in _parts(model, build, table)]
    mean = build.add(Average(_NONE, float(model.n_estimators)), *(value.node for value in values))
    return {"predict": Output(mean, flat=values[0].flat)}


def _parts(model: Any, build: Builder, table: str) -> list[tuple[Any, str]]:
    """Members, each with the columns that it was fitted on."""
    return [
        (one, column(build, table, *np.asarray(features).tolist()))
        for one, features in zip(model.estimators_, model.estimators_features_, strict=True)
    ]


def _of(model: Any, one: Any, outputs: Mapping[str, Output], method: str) -> Output:
    if method not in outputs:
        raise refuse(model, f"{type(one).__name__} inside, whose {method} is not compiled,")
    return outputs[method]


def _spread(model: Any, build: Builder, shares: str, own: np.ndarray[Any, Any], empty: float) -> str:
    """Put probabilities of some classes into columns of all of them."""
    count = int(model.n_classes_)
    if len(own) == count:
        return shares
    if build.width(shares) != len(own):
        raise refuse(model, f"a member of {len(own)} classes and {build.width(shares)} probabilities")
    zero = build.add(Constant(np.full(1, empty)), shares)
    where = {int(place): column for column, place in enumerate(own)}
    return column(build, joined(build, [shares, zero]), *(where.get(place, len(own)) for place in range(count)))


@parser("sklearn.VotingClassifier")
def lower_voting_classifier(model: Any, build: Builder, table: str) -> Mapping[str, Output]:
    """Lower voting: the mean probability, or the class with the most votes, the first of equals."""
    weights = model._weights_not_none  # without those of members that were dropped
    if model.voting == "soft":
        members = [member(model, one, build, table, "predict_proba").node for one in model.estimators_]
        shares = build.add(_average(weights, len(members)), *members)
        outputs = {"predict": chosen(build, shares, model.classes_), "predict_proba": Output(shares)}
        if model.flatten_transform:
            outputs["transform"] = Output(build.add(Concatenate(), *members))
        return outputs
    if weights is not None and min(weights) < 0:
        raise refuse(model, f"weights={model.weights!r}", "has no translation: a weight is negative")
    # Members are fitted on places of the classes, and so predict places.
    count = len(model.classes_)
    named = [member(model, one, build, table, "predict") for one in model.estimators_]
    votes = joined(build, [places(model, build, output, np.arange(count)) for output in named])
    hits = np.ones(len(named)) if weights is None else np.array(weights, np.float64)
    total = build.add(Votes(hits, np.zeros(len(named)), count), votes)
    return {
        "predict": chosen(build, total, model.classes_),
        "transform": Output(votes, dtype="int64"),
    }


@parser("sklearn.VotingRegressor")
def lower_voting_regressor(model: Any, build: Builder, table: str) -> Mapping[str, Output]:
    """Lower voting of regressors: their mean."""
    values = [member(model, one, build, table, "predict") for one in model.estimators_]
    if not all(value.flat for value in values):
        raise refuse(model, "members of several outputs")
    nodes = [value.node for value in values]
    mean = build.add(_average(model._weights_not_none, len(nodes)), *nodes)
    return {"predict": Output(mean, flat=True), "transform": Output(joined(build, nodes))}


def _average(weights: Any, count: int) -> Average:
    if weights is None:
        return Average(_NONE, float(count))
    own = np.array(weights, np.float64)
    return Average(own, float(own.sum()))


@parser("sklearn.StackingClassifier", "sklearn.StackingRegressor")
def lower_stacking(model: Any, build: Builder, table: str) -> Mapping[str, Output]:
    """Lower stacking: the last model reads what the others give."""
    parts = []
    for one, method in zip(model.estimators_, model.stack_method_, strict=True):
        output = member(model, one, build, table, method)
        parts.append(_stacked(model, build, output, method))
    if model.passthrough:
        parts.append(table)
    stacked = joined(build, parts)
    codes = hasattr(model, "_label_encoder") and not model.passthrough and set(model.stack_method_) == {"predict"}
    outputs = {"transform": Output(stacked, dtype="int64" if codes else None)}
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


def _stacked(model: Any, build: Builder, output: Output, method: str) -> str:
    """One member's columns: of two classes, the probability of the second."""
    if output.split is not None:
        starts = np.cumsum([0, *output.split[:-1]]).tolist()
        return column(build, output.node, *sorted(set(range(build.width(output.node))) - set(starts)))
    if method == "predict_proba" and len(model.classes_) == 2:
        return column(build, output.node, *range(1, build.width(output.node)))
    return numbers(model, build, output)


def _named(model: Any, output: Output) -> Output:
    """Name the classes: the last model was fitted on their places."""
    encoder = model._label_encoder  # there is no public way
    if isinstance(encoder, list) or output.labels is None or isinstance(output.labels, tuple):
        raise refuse(model, "several labels a row")
    own = plain(output.labels).astype(np.int64)
    return Output(output.node, flat=True, labels=np.asarray(encoder.classes_)[own])
