"""Classification into many classes by binary classifiers: one against the rest, one against one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

import optimizer.compiling as ops
from vista_spark.compiling._refusals import refuse
from vista_spark.compiling._registry import parser
from vista_spark.compiling.sklearn._members import binary_score, chosen, column, joined, member, numbers

if TYPE_CHECKING:
    from collections.abc import Mapping


_BINARY = 2


@parser("sklearn._ConstantPredictor")
def lower_constant(model: Any, build: ops.Builder, table: str) -> Mapping[str, ops.Output]:
    """Lower what stands for a classifier whose class came in all rows, or in none."""
    value = np.asarray(model.y_, np.float64)
    score = build.add(ops.Constant(value), table)
    shares = build.add(ops.Constant(np.concatenate([1 - value, value])), table)
    return {
        "predict": ops.Output(score, flat=True),
        "decision_function": ops.Output(score, flat=True),
        "predict_proba": ops.Output(shares),
    }


@parser("sklearn.OneVsRestClassifier")
def lower_one_against_rest(model: Any, build: ops.Builder, table: str) -> Mapping[str, ops.Output]:
    """Lower one classifier a class: the greatest score, or each label whose score is above the threshold."""
    members = model.estimators_
    scores = joined(
        build, [build.add(ops.Cast("float64"), binary_score(model, estimator, build, table)) for estimator in members]
    )
    several = bool(model.multilabel_)
    classes = np.asarray(model.classes_)
    if len(classes) < _BINARY and not several:
        raise refuse(model, "one class")
    if model.label_binarizer_.y_type_ == "multiclass":
        outputs = {"predict": chosen(build, scores, classes)}
    elif several:
        # The library's indicator is of whole numbers.
        above = [
            build.add(ops.Above(_threshold(members[0]), or_equal=False), column(build, scores, place))
            for place in range(len(members))
        ]
        outputs = {"predict": ops.Output(joined(build, above))}
    else:
        outputs = {"predict": chosen(build, scores, classes, threshold=_threshold(members[0]))}
    if hasattr(model, "decision_function") and all(hasattr(estimator, "decision_function") for estimator in members):
        decisions = [member(model, estimator, build, table, "decision_function").node for estimator in members]
        outputs["decision_function"] = ops.Output(joined(build, decisions), flat=len(members) == 1)
    if hasattr(model, "predict_proba") and all(hasattr(estimator, "predict_proba") for estimator in members):
        parts = [
            column(build, member(model, estimator, build, table, "predict_proba").node, 1) for estimator in members
        ]
        shares = build.add(ops.Complement(), parts[0]) if len(parts) == 1 else joined(build, parts)
        outputs["predict_proba"] = ops.Output(shares if several else build.add(ops.Shares(equal=False), shares))
    return outputs


@parser("sklearn.OneVsOneClassifier")
def lower_one_against_one(model: Any, build: ops.Builder, table: str) -> Mapping[str, ops.Output]:
    """Lower one classifier a pair of classes: votes, and confidences for ties."""
    classes = np.asarray(model.classes_)
    if model.pairwise_indices_ is not None:
        raise refuse(model, "a kernel that is given as a matrix")
    decisions = [
        numbers(model, build, member(model, estimator, build, table, "predict")) for estimator in model.estimators_
    ]
    confidences = [binary_score(model, estimator, build, table) for estimator in model.estimators_]
    scores = build.add(ops.Pairwise(len(classes)), joined(build, decisions), joined(build, confidences))
    if len(classes) > _BINARY:
        return {"predict": chosen(build, scores, classes), "decision_function": ops.Output(scores)}
    second = column(build, scores, 1)
    return {
        "predict": chosen(build, second, classes, threshold=_threshold(model.estimators_[0])),
        "decision_function": ops.Output(second, flat=True),
    }


def _threshold(model: Any) -> float:
    """Return the threshold of the second class: 0 for decision functions, else 0.5."""
    classifies = model.__sklearn_tags__().estimator_type == "classifier"
    return 0.0 if classifies and hasattr(model, "decision_function") else 0.5
