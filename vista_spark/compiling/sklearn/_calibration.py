"""Calibrated probabilities, and classes by another threshold."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from optimizer.compiling import (
    Above,
    Arithmetic,
    Average,
    Cast,
    Clip,
    Complement,
    Concatenate,
    Constant,
    Function,
    Interpolate,
    Linear,
    Link,
    Output,
    Shares,
    Sigmoid,
    Softmax,
)
from vista_spark.compiling._registry import lower, parser
from vista_spark.compiling.sklearn._checks import knot_side, plain, refuse
from vista_spark.compiling.sklearn._members import available, chosen, column, first_method, joined, member, negated

if TYPE_CHECKING:
    from collections.abc import Mapping

    from optimizer.compiling import Builder

__all__ = ["lower_calibrated", "lower_threshold"]

_SCORES = ("decision_function", "predict_proba")
_BINARY = 2


@parser("sklearn.CalibratedClassifierCV")
def lower_calibrated(model: Any, build: Builder, table: str) -> Mapping[str, Output]:
    """Lower the mean of calibrated members."""
    members = [_calibrated(model, one, build, table) for one in model.calibrated_classifiers_]
    # The library adds them to zeros of float64.
    members = [build.add(Cast("float64"), one) for one in members]
    shares = build.add(Average(np.zeros(0), float(len(members))), *members)
    return {"predict": chosen(build, shares, model.classes_), "predict_proba": Output(shares)}


def _calibrated(model: Any, one: Any, build: Builder, table: str) -> str:
    method = first_method(model, one.estimator, _SCORES)
    scores = member(model, one.estimator, build, table, method).node
    classes, own = np.asarray(one.classes), np.asarray(one.estimator.classes_)
    if len(classes) == _BINARY and len(own) == _BINARY and method == "predict_proba":
        scores = column(build, scores, 1)
    if one.method == "temperature":
        return _tempered(model, one, build, scores, method)
    if len(classes) < _BINARY or build.width(scores) != (1 if len(classes) == _BINARY else len(own)):
        raise refuse(model, f"a member of {len(own)} classes and {build.width(scores)} scores")
    parts = [
        _line(model, calibrator, build, column(build, scores, place))
        for place, calibrator in enumerate(one.calibrators)
    ]
    if len(classes) == _BINARY:
        shares = build.add(Complement(), parts[0])
    else:
        where = {label: place for place, label in enumerate(own.tolist())}
        zero = build.add(Constant(np.zeros(1)), scores)
        shares = joined(build, [parts[where[one]] if one in where else zero for one in classes.tolist()])
        shares = build.add(Shares(equal=True), shares)
    return build.add(Clip(-np.inf, 1.0), shares)


def _line(model: Any, calibrator: Any, build: Builder, score: str) -> str:
    """Calibrate the score of one class."""
    if hasattr(calibrator, "X_thresholds_"):
        x, y = plain(calibrator.X_thresholds_), plain(calibrator.y_thresholds_)
        if x.dtype != y.dtype:
            raise refuse(model, f"knots of {x.dtype} and values of {y.dtype}")
        held = build.add(Clip(float(calibrator.X_min_), float(calibrator.X_max_)), build.add(Cast(str(x.dtype)), score))
        # The library puts what it found into a table of float64.
        return build.add(Cast("float64"), build.add(Interpolate(x, y, knot_side(x)), held))
    scaled = build.add(Linear(np.array([[float(calibrator.a_)]]), np.array([float(calibrator.b_)])), score)
    return build.add(Sigmoid(), negated(build, scaled))


def _tempered(model: Any, one: Any, build: Builder, scores: str, method: str) -> str:
    """Divide the scores by a temperature; of probabilities, their logarithms."""
    single = build.width(scores) == 1
    if method == "predict_proba":
        if "OneVsRestClassifier" in {type(model.estimator).__name__, type(one.estimator).__name__}:
            raise refuse(model, "OneVsRestClassifier inside", "computes otherwise where no class has a probability")
        if not _adds_to_one(build, scores):
            raise refuse(
                model,
                f"{type(one.estimator).__name__} inside, whose probabilities do not add up to one,",
                "takes them for scores or for probabilities by what all rows of a call have in common",
            )
        shares = build.add(Complement(), scores) if single else scores
        logits = build.add(Function("log"), build.add(Arithmetic("add", np.full(build.width(shares), 1e-12)), shares))
    else:
        logits = build.add(Concatenate(), negated(build, scores), scores) if single else scores
    beta = np.full(build.width(logits), float(one.calibrators[0].beta_))
    tempered = build.add(Softmax(), build.add(Arithmetic("multiply", beta), logits))
    return build.add(Clip(-np.inf, 1.0), tempered)


def _adds_to_one(build: Builder, shares: str) -> bool:
    """Whether classes share what there is, as far as the operators tell: no class has a probability by itself."""
    node = build.node(shares)
    if node is None or build.width(shares) == 1:
        return True
    if isinstance(node.operator, Arithmetic | Average | Cast | Clip):
        return all(_adds_to_one(build, one) for one in node.inputs)
    return not isinstance(node.operator, Sigmoid) and not (
        isinstance(node.operator, Link) and node.operator.kind.startswith("logistic")
    )


@parser("sklearn.FixedThresholdClassifier", "sklearn.TunedThresholdClassifierCV")
def lower_threshold(model: Any, build: Builder, table: str) -> Mapping[str, Output]:
    """Lower classes by a threshold; the other results are those of the model inside."""
    inner = getattr(model, "estimator_", model.estimator)
    tuned = hasattr(model, "best_threshold_")
    positive = model._curve_scorer._get_pos_label() if tuned else model.pos_label
    wanted = model._get_response_method()
    method = first_method(model, inner, [wanted] if isinstance(wanted, str) else wanted)
    outputs = lower(inner, build, table)
    if method not in outputs:
        raise refuse(model, f"{type(inner).__name__} inside, whose {method} is not compiled,")
    classes = np.asarray(model.classes_)
    if positive is not None and positive not in classes.tolist():
        raise refuse(model, f"pos_label={positive!r}", f"is none of the classes {classes.tolist()}")
    first = positive is not None and positive == classes[0]
    score = outputs[method].node
    if method == "predict_proba":
        score = column(build, score, 0 if first else 1)
    elif first:
        score = negated(build, score)
    threshold = model.best_threshold_ if tuned else model.threshold
    if isinstance(threshold, str):
        threshold = 0.5 if method == "predict_proba" else 0.0
    if isinstance(threshold, np.floating):
        score = build.add(Cast("float64"), score)
    place = build.add(Above(float(threshold), or_equal=True), score)
    labels = classes[[1, 0]] if first else classes
    return {**available(model, outputs), "predict": Output(place, flat=True, labels=labels)}
