"""Many classes by classifiers of two: one against the rest, one against one, codes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from optimizer.compiling import Above, Cast, Complement, Constant, Finite, Output, Pairwise, Shares
from vista_spark.compiling._registry import parser
from vista_spark.compiling.sklearn._checks import refuse
from vista_spark.compiling.sklearn._clusters import nearest
from vista_spark.compiling.sklearn._members import binary_score, chosen, column, joined, member, numbers

if TYPE_CHECKING:
    from collections.abc import Mapping

    from optimizer.compiling import Builder

__all__ = ["lower_codes", "lower_constant", "lower_one_against_one", "lower_one_against_rest"]

_BINARY = 2


@parser("sklearn._ConstantPredictor")
def lower_constant(model: Any, build: Builder, table: str) -> Mapping[str, Output]:
    """Lower what stands for a classifier whose class came in all rows, or in none."""
    value = np.asarray(model.y_, np.float64)
    score = build.add(Constant(value), table)
    shares = build.add(Constant(np.concatenate([1 - value, value])), table)
    return {
        "predict": Output(score, flat=True),
        "decision_function": Output(score, flat=True),
        "predict_proba": Output(shares),
    }


@parser("sklearn.OneVsRestClassifier")
def lower_one_against_rest(model: Any, build: Builder, table: str) -> Mapping[str, Output]:
    """Lower one classifier a class: the greatest score, or each label whose score is above the threshold."""
    members = model.estimators_
    scores = joined(build, [build.add(Cast("float64"), binary_score(model, one, build, table)) for one in members])
    several = bool(model.multilabel_)
    classes = np.asarray(model.classes_)
    if len(classes) < _BINARY and not several:
        raise refuse(model, "one class")
    if model.label_binarizer_.y_type_ == "multiclass":
        outputs = {"predict": chosen(build, scores, classes)}
    elif several:
        # The library's indicator is of whole numbers.
        above = [
            build.add(Above(_threshold(members[0]), or_equal=False), column(build, scores, place))
            for place in range(len(members))
        ]
        outputs = {"predict": Output(joined(build, above))}
    else:
        outputs = {"predict": chosen(build, scores, classes, threshold=_threshold(members[0]))}
    if hasattr(model, "decision_function") and all(hasattr(one, "decision_function") for one in members):
        decisions = [member(model, one, build, table, "decision_function").node for one in members]
        outputs["decision_function"] = Output(joined(build, decisions), flat=len(members) == 1)
    if hasattr(model, "predict_proba") and all(hasattr(one, "predict_proba") for one in members):
        parts = [column(build, member(model, one, build, table, "predict_proba").node, 1) for one in members]
        shares = build.add(Complement(), parts[0]) if len(parts) == 1 else joined(build, parts)
        outputs["predict_proba"] = Output(shares if several else build.add(Shares(equal=False), shares))
    return outputs


@parser("sklearn.OneVsOneClassifier")
def lower_one_against_one(model: Any, build: Builder, table: str) -> Mapping[str, Output]:
    """Lower one classifier a pair of classes: votes, and confidences for ties."""
    classes = np.asarray(model.classes_)
    if model.pairwise_indices_ is not None:
        raise refuse(model, "a kernel that is given as a matrix")
    decisions = [numbers(model, build, member(model, one, build, table, "predict")) for one in model.estimators_]
    confidences = [binary_score(model, one, build, table) for one in model.estimators_]
    scores = build.add(Pairwise(len(classes)), joined(build, decisions), joined(build, confidences))
    if len(classes) > _BINARY:
        return {"predict": chosen(build, scores, classes), "decision_function": Output(scores)}
    second = column(build, scores, 1)
    return {
        "predict": chosen(build, second, classes, threshold=_threshold(model.estimators_[0])),
        "decision_function": Output(second, flat=True),
    }


@parser("sklearn.OutputCodeClassifier")
def lower_codes(model: Any, build: Builder, table: str) -> Mapping[str, Output]:
    """Lower the class whose code is nearest, as the library does: beside a great score all codes are equally near."""
    scores = joined(
        build, [build.add(Cast("float64"), binary_score(model, one, build, table)) for one in model.estimators_]
    )
    held = build.add(Finite("as given", nan=False, who=type(model).__name__), scores)
    place = nearest(build, held, np.asarray(model.code_book_, np.float64))
    return {"predict": Output(place, flat=True, labels=np.asarray(model.classes_))}


def _threshold(model: Any) -> float:
    """Tell where the second class begins: probabilities, and scores of regressors, are split in the middle."""
    classifies = model.__sklearn_tags__().estimator_type == "classifier"
    return 0.0 if classifies and hasattr(model, "decision_function") else 0.5
