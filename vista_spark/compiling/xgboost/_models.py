"""Models of XGBoost: estimators, Boosters and documents."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

import optimizer.compiling as ops
from vista_spark.compiling._refusals import refusal
from vista_spark.compiling._registry import parser, register
from vista_spark.compiling.xgboost._document import ModelDocument
from vista_spark.compiling.xgboost._trees import lower_linear, lower_trees, read_rows

if TYPE_CHECKING:
    from collections.abc import Mapping


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
def lower_classifier(model: Any, build: ops.Builder, table: str) -> Mapping[str, ops.Output]:
    """Lower a classifier: the class of the greatest probability, or each label whose probability is above one half."""
    document = _of_estimator(model)
    scores, leaves = _lower(document, build, table)
    labels = np.arange(int(model.n_classes_))
    if document.objective in {"multi:softmax", "multi:softprob"}:
        shares = build.add(ops.Link("softmax of float32"), scores)
        place = build.add(ops.ArgMax(), scores if document.objective == "multi:softmax" else shares)
        return {"predict": ops.Output(place, flat=True, labels=labels), "predict_proba": ops.Output(shares), **leaves}
    shares = _converted(document, build, scores)
    if build.width(shares) > 1:
        return {
            "predict": ops.Output(build.add(ops.Compare(_HALF), shares)),
            "predict_proba": ops.Output(shares),
            **leaves,
        }
    place = build.add(ops.Above(_HALF, or_equal=False), shares)
    both = build.add(ops.Complement(), shares)
    return {"predict": ops.Output(place, flat=True, labels=labels), "predict_proba": ops.Output(both), **leaves}


@parser("xgboost.XGBRanker", "xgboost.XGBRegressor", "xgboost.XGBRFRegressor")
def lower_regressor(model: Any, build: ops.Builder, table: str) -> Mapping[str, ops.Output]:
    """Lower a model of values or of ranks."""
    return lower_document(_of_estimator(model), build, table)


@parser("xgboost.Booster")
def lower_booster(model: Any, build: ops.Builder, table: str) -> Mapping[str, ops.Output]:
    """Lower a Booster with all its iterations, as its ``predict`` does."""
    return lower_document(ModelDocument.parse(bytes(model.save_raw("json"))), build, table)


def lower_document(model: ModelDocument, build: ops.Builder, table: str) -> Mapping[str, ops.Output]:
    """Lower a document: what its Booster predicts."""
    scores, leaves = _lower(model, build, table)
    if model.objective == "multi:softmax":
        return {"predict": ops.Output(build.add(ops.ArgMax(), scores), flat=True), **leaves}
    values = _converted(model, build, scores)
    return {"predict": ops.Output(values, flat=build.width(values) == 1), **leaves}


register(ModelDocument, lower_document)


def _of_estimator(model: Any) -> ModelDocument:
    document = ModelDocument.parse(bytes(model.get_booster().save_raw("json")))
    document = replace(document, missing=float(model.missing), refuses_infinities=document.weights is not None)
    # Only trees stop at the best iteration.
    if document.best is None or document.weights is not None:
        return document
    return document.until(document.best + 1)


def _lower(model: ModelDocument, build: ops.Builder, table: str) -> tuple[str, dict[str, ops.Output]]:
    rows = read_rows(model, build, table)
    if model.weights is not None:
        return lower_linear(model, build, rows), {}
    scores, leaves = lower_trees(model, build, rows)
    # As the library gives them: floats, and of one tree a number a row.
    return scores, {"apply": ops.Output(leaves, flat=len(model.trees) == 1, dtype="float32")}


def _converted(model: ModelDocument, build: ops.Builder, scores: str) -> str:
    """Convert scores to the predictions of the objective."""
    if model.objective in _IDENTITY:
        return scores
    if model.objective in _LOGISTIC:
        return build.add(ops.Link("logistic of float32"), scores)
    if model.objective in _EXPONENTIAL:
        return build.add(ops.Link("exp"), scores)
    if model.objective == "multi:softprob":
        return build.add(ops.Link("softmax of float32"), scores)
    if model.objective == "binary:hinge":
        return build.add(ops.Compare(0.0), scores)
    raise refusal(f"XGBoost with objective={model.objective!r}")
