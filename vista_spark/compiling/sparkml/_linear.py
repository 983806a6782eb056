"""Linear models of Spark ML."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

import optimizer.compiling as ops
from vista_spark.compiling._refusals import refuse
from vista_spark.compiling.sparkml._classes import (
    both_margins,
    features_of,
    give_classes,
    shares_of_margin,
    threshold_of,
)
from vista_spark.compiling.sparkml._stages import stage

if TYPE_CHECKING:
    from vista_spark.compiling.sparkml._columns import Columns

_LEAST = 1e-16
_MOST = float(np.finfo(np.float64).max)


@stage("LogisticRegressionModel")
def lower_logistic(model: Any, columns: Columns) -> None:
    """Lower logistic regression: of one margin, or of one for each class."""
    weights = model.coefficientMatrix.toArray()
    table = features_of(model, columns)
    raw = columns.add(ops.Linear(weights.T.copy(), model.interceptVector.toArray().copy()), table)
    if len(weights) == 1:
        limit = threshold_of(model.getThreshold())
        give_classes(model, columns, both_margins(columns, raw), shares_of_margin(columns, raw), margin=(raw, limit))
    else:
        give_classes(model, columns, raw, columns.add(ops.Softmax(), raw))


@stage("LinearSVCModel")
def lower_support(model: Any, columns: Columns) -> None:
    """Lower a linear support vector machine: class 1 where the margin is above a threshold."""
    margin = _scores(model, columns)
    give_classes(model, columns, both_margins(columns, margin), None, margin=(margin, float(model.getThreshold())))


@stage("LinearRegressionModel")
def lower_linear(model: Any, columns: Columns) -> None:
    """Lower linear regression."""
    columns.add_column(model.getPredictionCol(), _scores(model, columns), flat=True, role="predict")


@stage("GeneralizedLinearRegressionModel")
def lower_generalised(model: Any, columns: Columns) -> None:
    """Lower a generalised linear model: the mean is the link's inverse, held to what the family takes."""
    link = _scores(model, columns)
    if model.isDefined("offsetCol") and model.getOffsetCol():
        link = columns.add(ops.Combine("add"), link, columns.number(model.getOffsetCol()))
    family, power = _family(model)
    mean = _unlinked(model, columns, link, _link(model, family, power))
    low, high = -_MOST, _MOST
    if family == "binomial":
        low, high = _LEAST, 1 - _LEAST
    elif family != "gaussian":
        low = _LEAST
    if model.isDefined("linkPredictionCol") and model.getLinkPredictionCol():
        columns.add_column(model.getLinkPredictionCol(), link, flat=True)
    columns.add_column(model.getPredictionCol(), columns.add(ops.Clip(low, high), mean), flat=True, role="predict")


def _scores(model: Any, columns: Columns) -> str:
    weights = np.asarray(model.coefficients.toArray(), np.float64)
    return columns.add(
        ops.Linear(weights[:, None].copy(), np.full(1, float(model.intercept))), features_of(model, columns)
    )


def _family(model: Any) -> tuple[str, float]:
    family = model.getFamily().lower()
    power = float(model.getVariancePower()) if family == "tweedie" else 0.0
    return {0.0: "gaussian", 1.0: "poisson", 2.0: "gamma"}.get(power, family) if family == "tweedie" else family, power


def _link(model: Any, family: str, power: float) -> str | float:
    """Return the name of the link, or its power."""
    if model.getFamily().lower() == "tweedie":
        exponent = float(model.getLinkPower()) if model.isDefined("linkPower") else 1 - power
        return {0.0: "log", 1.0: "identity", -1.0: "inverse", 0.5: "sqrt"}.get(exponent, exponent)
    if model.isDefined("link") and model.getLink():
        return str(model.getLink().lower())
    return {"binomial": "logit", "poisson": "log", "gamma": "inverse"}.get(family, "identity")


def _unlinked(model: Any, columns: Columns, eta: str, link: str | float) -> str:  # noqa: PLR0911 - one for each link
    add = columns.add
    if link == "identity":
        return eta
    if link == "log":
        return add(ops.Function("exp"), eta)
    if link == "logit":
        return add(ops.Sigmoid(), eta)
    if link == "inverse":
        return add(ops.Function("reciprocal"), eta)
    if link == "sqrt":
        return add(ops.Function("square"), eta)
    if link == "probit":
        root = add(ops.Function("erf"), add(ops.Arithmetic("divide", np.full(1, math.sqrt(2.0))), eta))
        return add(ops.Arithmetic("multiply", np.full(1, 0.5)), add(ops.Arithmetic("add", np.ones(1)), root))
    if link == "cloglog":
        inner = add(ops.Function("negative"), add(ops.Function("exp"), eta))
        return add(ops.Arithmetic("add", np.ones(1)), add(ops.Function("negative"), add(ops.Function("exp"), inner)))
    if isinstance(link, float):
        return add(ops.Power(1 / link), eta)
    raise refuse(model, f"link={link!r}")
