"""Models of LightGBM: estimators, Boosters and model texts."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from optimizer.compiling import (
    Above,
    ArgMax,
    Arithmetic,
    Complement,
    Link,
    Output,
    Sigmoid,
    Softmax,
    UnsupportedOperatorError,
)
from vista_spark.compiling._registry import parser, register
from vista_spark.compiling.lightgbm._text import ModelText
from vista_spark.compiling.lightgbm._trees import lower_trees

if TYPE_CHECKING:
    from collections.abc import Mapping

    from optimizer.compiling import Builder

__all__ = ["lower_booster", "lower_classifier", "lower_regressor", "lower_text"]

_IDENTITY = frozenset({"fair", "huber", "lambdarank", "mape", "quantile", "rank_xendcg", "regression", "regression_l1"})
_EXPONENTIAL = frozenset({"gamma", "poisson", "tweedie"})


@parser("lightgbm.LGBMClassifier")
def lower_classifier(model: Any, build: Builder, table: str) -> Mapping[str, Output]:
    """Lower a classifier: the class with the greatest probability."""
    text = _text_of(model, model.booster_)
    raw, leaves = lower_trees(text, build, table)
    shares = _converted(text, build, raw)
    if build.width(shares) == 1:
        if text.objective[0] not in {"binary", "cross_entropy"}:
            raise UnsupportedOperatorError(f"LGBMClassifier with objective={text.objective[0]!r} has no translation")
        place = build.add(Above(_even(_slope(text)), or_equal=False), raw)
        shares = build.add(Complement(), shares)
    else:
        place = build.add(ArgMax(), shares)
    return {
        "predict": Output(place, flat=True, labels=np.asarray(model.classes_)),
        "predict_proba": Output(shares),
        "apply": Output(leaves),
    }


@parser("lightgbm.LGBMRanker", "lightgbm.LGBMRegressor")
def lower_regressor(model: Any, build: Builder, table: str) -> Mapping[str, Output]:
    """Lower a model of values or of ranks."""
    return lower_text(_text_of(model, model.booster_), build, table)


@parser("lightgbm.Booster")
def lower_booster(model: Any, build: Builder, table: str) -> Mapping[str, Output]:
    """Lower a Booster, of its best iteration where there is one."""
    return lower_text(_text_of(model, model), build, table)


def lower_text(model: ModelText, build: Builder, table: str) -> Mapping[str, Output]:
    """Lower a model text: what its Booster predicts."""
    raw, leaves = lower_trees(model, build, table)
    values = _converted(model, build, raw)
    return {"predict": Output(values, flat=build.width(values) == 1), "apply": Output(leaves)}


register(ModelText, lower_text)


def _text_of(model: Any, booster: Any) -> ModelText:
    if callable(getattr(model, "objective", None)):
        raise UnsupportedOperatorError(f"{type(model).__name__} with an objective of your own has no translation")
    return ModelText.parse(booster.model_to_string())


def _converted(model: ModelText, build: Builder, raw: str) -> str:
    """From scores to what the objective predicts."""
    kind = model.objective[0] if model.objective else ""
    if kind in _IDENTITY:
        return build.add(Link("signed square"), raw) if "sqrt" in model.objective else raw
    if kind in _EXPONENTIAL:
        return build.add(Link("exp"), raw)
    if kind == "cross_entropy_lambda":
        return build.add(Link("softplus"), raw)
    if kind == "multiclass":
        return build.add(Softmax(), raw)
    if kind in {"binary", "cross_entropy", "multiclassova"}:
        slope = _slope(model)
        scaled = build.add(Arithmetic("multiply", np.full(build.width(raw), slope)), raw) if slope != 1 else raw
        return build.add(Sigmoid(), scaled)
    raise UnsupportedOperatorError(f"LightGBM with objective={kind or 'of your own'!r} has no translation")


def _slope(model: ModelText) -> float:
    options = dict(option.split(":", 1) for option in model.objective[1:] if ":" in option)
    return float(options.get("sigmoid", 1.0))


def _even(slope: float) -> float:
    """The greatest score whose probability is not above one half, as LightGBM computes it: all but zero, not zero."""
    low, high = 0.0, 1.0 / slope
    while (middle := (low + high) / 2) not in {low, high}:
        if 1.0 / (1.0 + math.exp(-slope * middle)) > 0.5:
            high = middle
        else:
            low = middle
    return low
