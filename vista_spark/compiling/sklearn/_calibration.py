"""Isotonic regression, calibrated probabilities and decision thresholds of scikit-learn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

import optimizer.compiling as ops
from vista_spark.compiling._refusals import refuse
from vista_spark.compiling._registry import lower, parser
from vista_spark.compiling.sklearn._checks import plain
from vista_spark.compiling.sklearn._members import available, chosen, column, first_method, joined, member, negated

if TYPE_CHECKING:
    from collections.abc import Mapping


@parser("sklearn.IsotonicRegression")
def lower_isotonic(model: Any, build: ops.Builder, table: str) -> Mapping[str, ops.Output]:
    """Lower the line through the thresholds of one column."""
    x, y = plain(model.X_thresholds_), plain(model.y_thresholds_)
    rows = build.add(ops.Finite(x.dtype.name, nan=False, who="IsotonicRegression"), table)
    rows = build.add(ops.Cast(x.dtype.name), rows)
    if model.out_of_bounds == "clip":
        rows = build.add(ops.Clip(float(model.X_min_), float(model.X_max_)), rows)
    if len(x) == 1:
        values = build.add(ops.Linear(np.zeros((1, 1), x.dtype), y), rows)
    else:
        if model.out_of_bounds == "raise":
            reason = f"a number outside of {float(x[0])} to {float(x[-1])}, which IsotonicRegression refuses"
            rows = build.add(ops.Within(x[:1].astype(np.float64), x[-1:].astype(np.float64), reason), rows)
        values = build.add(ops.Interpolate(x, y, knot_side(x)), rows)
    return {"predict": ops.Output(values, flat=True), "transform": ops.Output(values, flat=True)}


_SCORES = ("decision_function", "predict_proba")
_BINARY = 2


@parser("sklearn.CalibratedClassifierCV")
def lower_calibrated(model: Any, build: ops.Builder, table: str) -> Mapping[str, ops.Output]:
    """Lower the mean of calibrated members."""
    members = [_calibrated(model, calibrated, build, table) for calibrated in model.calibrated_classifiers_]
    # The library adds them up in float64.
    members = [build.add(ops.Cast("float64"), calibrated) for calibrated in members]
    shares = build.add(ops.Average(np.zeros(0), float(len(members))), *members)
    return {"predict": chosen(build, shares, model.classes_), "predict_proba": ops.Output(shares)}


def _calibrated(model: Any, calibrated: Any, build: ops.Builder, table: str) -> str:
    method = first_method(model, calibrated.estimator, _SCORES)
    scores = member(model, calibrated.estimator, build, table, method).node
    classes, known = np.asarray(calibrated.classes), np.asarray(calibrated.estimator.classes_)
    if len(classes) == _BINARY and len(known) == _BINARY and method == "predict_proba":
        scores = column(build, scores, 1)
    if calibrated.method == "temperature":
        raise refuse(model, "method='temperature'", remedy="Calibrate with method='sigmoid' or 'isotonic'.")
    if len(classes) < _BINARY or build.width(scores) != (1 if len(classes) == _BINARY else len(known)):
        raise refuse(model, f"a member of {len(known)} classes and {build.width(scores)} scores")
    parts = [
        _line(model, calibrator, build, column(build, scores, place))
        for place, calibrator in enumerate(calibrated.calibrators)
    ]
    if len(classes) == _BINARY:
        shares = build.add(ops.Complement(), parts[0])
    else:
        where = {label: place for place, label in enumerate(known.tolist())}
        zero = build.add(ops.Constant(np.zeros(1)), scores)
        shares = joined(build, [parts[where[label]] if label in where else zero for label in classes.tolist()])
        shares = build.add(ops.Shares(equal=True), shares)
    return build.add(ops.Clip(-np.inf, 1.0), shares)


def _line(model: Any, calibrator: Any, build: ops.Builder, score: str) -> str:
    """Calibrate the score of one class."""
    if hasattr(calibrator, "X_thresholds_"):
        x, y = plain(calibrator.X_thresholds_), plain(calibrator.y_thresholds_)
        if x.dtype != y.dtype:
            raise refuse(model, f"knots of {x.dtype} and values of {y.dtype}")
        clipped = build.add(
            ops.Clip(float(calibrator.X_min_), float(calibrator.X_max_)), build.add(ops.Cast(str(x.dtype)), score)
        )
        # The library writes results into a table of float64.
        return build.add(ops.Cast("float64"), build.add(ops.Interpolate(x, y, knot_side(x)), clipped))
    scaled = build.add(ops.Linear(np.array([[float(calibrator.a_)]]), np.array([float(calibrator.b_)])), score)
    return build.add(ops.Sigmoid(), negated(build, scaled))


@parser("sklearn.FixedThresholdClassifier", "sklearn.TunedThresholdClassifierCV")
def lower_threshold(model: Any, build: ops.Builder, table: str) -> Mapping[str, ops.Output]:
    """Lower classes by a threshold, and the other methods of the model inside."""
    inner = getattr(model, "estimator_", model.estimator)
    tuned = hasattr(model, "best_threshold_")
    positive = model._curve_scorer._get_pos_label() if tuned else model.pos_label
    wanted = model._get_response_method()
    method = first_method(model, inner, [wanted] if isinstance(wanted, str) else wanted)
    outputs = lower(inner, build, table)
    if method not in outputs:
        raise refuse(model, f"a {type(inner).__name__} inside", f"its {method} is not compiled")
    classes = np.asarray(model.classes_)
    if positive is not None and positive not in classes.tolist():
        raise refuse(model, f"pos_label={positive!r}", f"the classes are {classes.tolist()}")
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
        score = build.add(ops.Cast("float64"), score)
    place = build.add(ops.Above(float(threshold), or_equal=True), score)
    labels = classes[[1, 0]] if first else classes
    return {**available(model, outputs), "predict": ops.Output(place, flat=True, labels=labels)}


def knot_side(knots: np.ndarray[Any, Any]) -> str:
    """Return the side whose line has the value at a knot: scipy takes the left one for float32, numpy the right one."""
    return "right" if knots.dtype == np.float64 else "left"
