"""Models of XGBoost: estimators, Boosters and documents."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from optimizer.compiling import (
    Above,
    ArgMax,
    Compare,
    Complement,
    Function,
    Link,
    Output,
    Reject,
    UnsupportedOperatorError,
)
from vista_spark.compiling._registry import parser, register
from vista_spark.compiling.xgboost._document import ModelDocument
from vista_spark.compiling.xgboost._trees import lower_linear, lower_trees, read_rows

if TYPE_CHECKING:
    from collections.abc import Mapping

    from optimizer.compiling import Builder

__all__ = ["lower_booster", "lower_classifier", "lower_document", "lower_regressor"]

_IDENTITY = frozenset(
    {
        "binary:logitraw",
        "rank:map",
        "rank:ndcg",
        "rank:pairwise",
        "reg:absoluteerror",
        "reg:pseudohubererror",
        "reg:quantileerror",
        "reg:squarederror",
        "reg:squaredlogerror",
    }
)
_LOGISTIC = frozenset({"binary:logistic", "reg:logistic"})
_EXPONENTIAL = frozenset({"count:poisson", "reg:gamma", "reg:tweedie", "survival:aft", "survival:cox"})
_HALF = 0.5


@parser("xgboost.XGBClassifier", "xgboost.XGBRFClassifier")
def lower_classifier(model: Any, build: Builder, table: str) -> Mapping[str, Output]:
    """Lower a classifier: the class of the greatest probability, or each label whose probability is above one half."""
    document = _of_estimator(model)
    scores, leaves = _lower(document, build, table)
    labels = np.arange(int(model.n_classes_))
    if document.objective in {"multi:softmax", "multi:softprob"}:
        shares = build.add(Link("softmax of float32"), scores)
        place = build.add(ArgMax(), scores if document.objective == "multi:softmax" else shares)
        return {"predict": Output(place, flat=True, labels=labels), "predict_proba": Output(shares), **leaves}
    shares = _converted(document, build, scores)
    if build.width(shares) > 1:
        return {"predict": Output(build.add(Compare(_HALF), shares)), "predict_proba": Output(shares), **leaves}
    place = build.add(Above(_HALF, or_equal=False), shares)
    both = build.add(Complement(), shares)
    return {"predict": Output(place, flat=True, labels=labels), "predict_proba": Output(both), **leaves}


@parser("xgboost.XGBRanker", "xgboost.XGBRegressor", "xgboost.XGBRFRegressor")
def lower_regressor(model: Any, build: Builder, table: str) -> Mapping[str, Output]:
    """Lower a model of values or of ranks."""
    return lower_document(_of_estimator(model), build, table)


@parser("xgboost.Booster")
def lower_booster(model: Any, build: Builder, table: str) -> Mapping[str, Output]:
    """Lower a Booster with all its iterations, as its ``predict`` does."""
    return lower_document(ModelDocument.parse(bytes(model.save_raw("ubj"))), build, table)


def lower_document(model: ModelDocument, build: Builder, table: str) -> Mapping[str, Output]:
    """Lower a document: what its Booster predicts."""
    scores, leaves = _lower(model, build, table)
    if model.objective == "multi:softmax":
        return {"predict": Output(build.add(ArgMax(), scores), flat=True), **leaves}
    values = _converted(model, build, scores)
    return {"predict": Output(values, flat=build.width(values) == 1), **leaves}


register(ModelDocument, lower_document)


def _of_estimator(model: Any) -> ModelDocument:
    if callable(model.objective):
        raise UnsupportedOperatorError(f"{type(model).__name__} with an objective of your own has no translation")
    document = ModelDocument.parse(bytes(model.get_booster().save_raw("ubj")))
    document = replace(document, missing=float(model.missing), refuses_infinities=document.weights is not None)
    # Only trees stop at the best iteration.
    if document.best is None or document.weights is not None:
        return document
    return document.until(document.best + 1)


def _lower(model: ModelDocument, build: Builder, table: str) -> tuple[str, dict[str, Output]]:
    rows = read_rows(model, build, table)
    if model.weights is not None:
        return lower_linear(model, build, rows), {}
    scores, leaves = lower_trees(model, build, rows)
    if not model.refuses_infinities:
        # An estimator predicts from the array itself, and finds leaves by a DMatrix, which refuses infinities.
        great = build.add(Compare(float(np.finfo(np.float32).max)), build.add(Function("abs"), rows))
        leaves = build.add(Reject("an infinity in float32, which XGBoost's apply does not take"), leaves, great)
    # As the library gives them: floats, and of one tree a number a row.
    return scores, {"apply": Output(leaves, flat=len(model.trees) == 1, dtype="float32")}


def _converted(model: ModelDocument, build: Builder, scores: str) -> str:
    """From scores to what the objective predicts."""
    if model.objective in _IDENTITY:
        return scores
    if model.objective in _LOGISTIC:
        return build.add(Link("logistic of float32"), scores)
    if model.objective in _EXPONENTIAL:
        return build.add(Link("exp"), scores)
    if model.objective == "multi:softprob":
        return build.add(Link("softmax of float32"), scores)
    if model.objective == "binary:hinge":
        return build.add(Compare(0.0), scores)
    raise UnsupportedOperatorError(f"XGBoost with objective={model.objective!r} has no translation")
