"""Models of CatBoost: estimators and documents."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

import optimizer.compiling as ops
from vista_spark.compiling._refusals import refusal
from vista_spark.compiling._registry import parser, register
from vista_spark.compiling.catboost._document import ModelDocument, document_of
from vista_spark.compiling.catboost._trees import lower_trees

if TYPE_CHECKING:
    from collections.abc import Mapping


_EXPONENTIAL = frozenset({"Poisson", "Tweedie"})


@parser("catboost.CatBoostClassifier")
def lower_classifier(model: Any, build: ops.Builder, table: str) -> Mapping[str, ops.Output]:
    """Lower a classifier: two classes by one score, more by one each, or several labels."""
    document = _read(model)
    scores, leaves = lower_trees(document, build, table)
    outputs = {"apply": ops.Output(leaves)}
    if document.loss in {"MultiLogloss", "MultiCrossEntropy"}:
        place, shares = build.add(ops.Compare(0.0), scores), build.add(ops.Sigmoid(), scores)
        return {"predict": ops.Output(place), "predict_proba": ops.Output(shares), **outputs}
    if document.loss in {"Logloss", "CrossEntropy"} or (_is_custom(document) and build.width(scores) == 1):
        place = build.add(ops.Above(_even(float(model.get_probability_threshold())), or_equal=False), scores)
        shares = build.add(ops.Complement(), build.add(ops.Sigmoid(), scores))
    elif document.loss in {"MultiClass", "MultiClassOneVsAll"}:
        place = build.add(ops.ArgMax(), scores)
        shares = build.add(ops.Softmax() if document.loss == "MultiClass" else ops.Sigmoid(), scores)
    else:
        raise refusal(f"CatBoostClassifier with loss_function={document.loss!r}")
    labels = ops.Output(place, flat=True, labels=np.asarray(model.classes_))
    return {"predict": labels, "predict_proba": ops.Output(shares), **outputs}


@parser("catboost.CatBoostRegressor")
def lower_regressor(model: Any, build: ops.Builder, table: str) -> Mapping[str, ops.Output]:
    """Lower a regressor: scores, or their exponential, or a mean and a variance."""
    document = _read(model)
    scores, leaves = lower_trees(document, build, table)
    if document.loss in _EXPONENTIAL:
        scores = build.add(ops.Link("exp"), scores)
    if document.loss == "RMSEWithUncertainty":
        mean, spread = (build.add(ops.Select(np.array([place], np.int64)), scores) for place in (0, 1))
        doubled = build.add(ops.Arithmetic("multiply", np.full(1, 2.0)), spread)
        scores = build.add(ops.Concatenate(), mean, build.add(ops.Link("exp"), doubled))
    return {"predict": ops.Output(scores, flat=build.width(scores) == 1), "apply": ops.Output(leaves)}


@parser("catboost.CatBoost", "catboost.CatBoostRanker")
def lower_model(model: Any, build: ops.Builder, table: str) -> Mapping[str, ops.Output]:
    """Lower a model of scores."""
    return lower_document(_read(model), build, table)


def lower_document(model: ModelDocument, build: ops.Builder, table: str) -> Mapping[str, ops.Output]:
    """Lower a document: its scores."""
    scores, leaves = lower_trees(model, build, table)
    return {"predict": ops.Output(scores, flat=build.width(scores) == 1), "apply": ops.Output(leaves)}


register(ModelDocument, lower_document)


def _read(model: Any) -> ModelDocument:
    return document_of(model)


def _is_custom(model: ModelDocument) -> bool:
    return not model.loss or "UserDefined" in model.loss or "Python" in model.loss


def _even(threshold: float) -> float:
    if threshold in {0.0, 1.0}:
        return math.inf if threshold else -math.inf
    return -math.log(1 / threshold - 1)
