"""Models of LightGBM: estimators, Boosters and model texts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

import optimizer.compiling as ops
from vista_spark.compiling._refusals import refusal
from vista_spark.compiling._registry import parser, register
from vista_spark.compiling.lightgbm._text import ModelText
from vista_spark.compiling.lightgbm._trees import lower_trees

if TYPE_CHECKING:
    from collections.abc import Mapping


_IDENTITY = frozenset({"fair", "huber", "lambdarank", "mape", "quantile", "rank_xendcg", "regression", "regression_l1"})
_EXPONENTIAL = frozenset({"gamma", "poisson", "tweedie"})


@parser("lightgbm.LGBMClassifier")
def lower_classifier(model: Any, build: ops.Builder, table: str) -> Mapping[str, ops.Output]:
    """Lower a classifier: the class with the greatest probability; for an objective of your own, raw scores."""
    text = _text_of(model.booster_)
    raw, leaves = lower_trees(text, build, table)
    if _is_custom(text):
        scores = ops.Output(raw, flat=build.width(raw) == 1)
        return {"predict": scores, "predict_proba": scores, "apply": ops.Output(leaves)}
    shares = _converted(text, build, raw)
    if build.width(shares) == 1:
        if text.objective[0] not in {"binary", "cross_entropy"}:
            raise refusal(f"LGBMClassifier with objective={text.objective[0]!r}")
        place = build.add(ops.Above(0.0, or_equal=False), raw)
        shares = build.add(ops.Complement(), shares)
    else:
        place = build.add(ops.ArgMax(), shares)
    return {
        "predict": ops.Output(place, flat=True, labels=np.asarray(model.classes_)),
        "predict_proba": ops.Output(shares),
        "apply": ops.Output(leaves),
    }


@parser("lightgbm.LGBMRanker", "lightgbm.LGBMRegressor")
def lower_regressor(model: Any, build: ops.Builder, table: str) -> Mapping[str, ops.Output]:
    """Lower a model of values or of ranks."""
    return lower_text(_text_of(model.booster_), build, table)


@parser("lightgbm.Booster")
def lower_booster(model: Any, build: ops.Builder, table: str) -> Mapping[str, ops.Output]:
    """Lower a Booster, of its best iteration where there is one."""
    return lower_text(_text_of(model), build, table)


def lower_text(model: ModelText, build: ops.Builder, table: str) -> Mapping[str, ops.Output]:
    """Lower a model text: what its Booster predicts."""
    raw, leaves = lower_trees(model, build, table)
    values = _converted(model, build, raw)
    return {"predict": ops.Output(values, flat=build.width(values) == 1), "apply": ops.Output(leaves)}


register(ModelText, lower_text)


def _text_of(booster: Any) -> ModelText:
    return ModelText.parse(booster.model_to_string())


def _converted(model: ModelText, build: ops.Builder, raw: str) -> str:
    """Convert scores to the predictions of the objective."""
    if _is_custom(model):
        return raw
    kind = model.objective[0]
    if kind in _IDENTITY:
        return build.add(ops.Link("signed square"), raw) if "sqrt" in model.objective else raw
    if kind in _EXPONENTIAL:
        return build.add(ops.Link("exp"), raw)
    if kind == "cross_entropy_lambda":
        return build.add(ops.Link("softplus"), raw)
    if kind == "multiclass":
        return build.add(ops.Softmax(), raw)
    if kind in {"binary", "cross_entropy", "multiclassova"}:
        slope = _slope(model)
        scaled = build.add(ops.Arithmetic("multiply", np.full(build.width(raw), slope)), raw) if slope != 1 else raw
        return build.add(ops.Sigmoid(), scaled)
    raise refusal(f"LightGBM with objective={kind!r}")


def _is_custom(model: ModelText) -> bool:
    """Return whether the objective is a function of the user's, of which the library predicts the raw sum."""
    return not model.objective or model.objective[0] == "custom"


def _slope(model: ModelText) -> float:
    options = dict(option.split(":", 1) for option in model.objective[1:] if ":" in option)
    return float(options.get("sigmoid", 1.0))
