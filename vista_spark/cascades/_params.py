"""Params that a cascade and its model share."""

from __future__ import annotations

from typing import Any

import numpy as np
from pyspark.ml.param import Param, TypeConverters
from pyspark.ml.param.shared import HasPredictionCol, HasProbabilityCol, HasSeed

from optimizer.cascades import METRICS
from udfs.arrow import ERROR_POLICIES
from udfs.driver import UNBOUND, accessors, at_least, one_of, optional_accessors, setter

__all__ = ["CascadeColumns", "CascadeTarget"]


def _open_interval(name: str) -> Any:
    def convert(value: Any) -> float:
        number = TypeConverters.toFloat(value)
        if not 0 < number < 1:
            raise TypeError(f"{name} must be a number above 0 and below 1, got {value!r}.")
        return number

    return convert


def _label(value: Any) -> str | float:
    if isinstance(value, str | bool | np.bool_):
        return value if isinstance(value, str) else float(value)
    try:
        return float(TypeConverters.toFloat(value))
    except TypeError:
        raise TypeError(f"positive must be a class, a number or a text, got {value!r}.") from None


def _costs(value: Any) -> list[float]:
    numbers = TypeConverters.toListFloat(value)
    if not numbers or not all(0 <= number < float("inf") for number in numbers):
        raise TypeError(f"costs must be a list of numbers of at least 0, got {value!r}.")
    return numbers


class CascadeColumns(HasPredictionCol, HasProbabilityCol):
    """Columns, batches, error policy and stored answers of a cascade."""

    answeredByCol: Param[str] = Param(
        UNBOUND, "answeredByCol", "column for the model that answered", TypeConverters.toString
    )
    batchSize: Param[int] = Param(
        UNBOUND, "batchSize", "rows that go through the models together", at_least("batchSize", 1)
    )
    errors: Param[str] = Param(UNBOUND, "errors", " | ".join(ERROR_POLICIES), one_of("errors", ERROR_POLICIES))
    errorCol: Param[str] = Param(UNBOUND, "errorCol", "column for the reason of a bad row", TypeConverters.toString)
    reuse: Param[str] = Param(
        UNBOUND, "reuse", "store of the models' answers by content of rows", TypeConverters.toString
    )

    def __init__(self) -> None:
        super().__init__()
        self._setDefault(
            predictionCol="prediction",
            probabilityCol="probability",
            answeredByCol="answered_by",
            batchSize=256,
            errors="null",
            errorCol="cascade_error",
        )

    setPredictionCol = setter(HasPredictionCol.predictionCol, "the column for the predicted class")
    setProbabilityCol = setter(HasProbabilityCol.probabilityCol, 'the column for the class probabilities; "" for none')
    getAnsweredByCol, setAnsweredByCol = accessors(answeredByCol, "the column for the model that answered")
    getBatchSize, setBatchSize = accessors(batchSize, "the rows that go through the models together")
    getErrors, setErrors = accessors(errors, "the policy for rows that the oracle cannot read")
    getErrorCol, setErrorCol = accessors(errorCol, "the column for the reason of a bad row")
    getReuse, setReuse = optional_accessors(reuse, "the store of answers")


class CascadeTarget(HasSeed):
    """Target of a cascade, and the sample that shows it."""

    target: Param[float] = Param(
        UNBOUND, "target", "least value of the metric relative to the oracle", _open_interval("target")
    )
    delta: Param[float] = Param(UNBOUND, "delta", "probability that the target is missed", _open_interval("delta"))
    metric: Param[str] = Param(UNBOUND, "metric", " | ".join(METRICS), one_of("metric", METRICS))
    positive: Param[Any] = Param(UNBOUND, "positive", "class that precision and recall count", _label)
    costs: Param[list[float]] = Param(UNBOUND, "costs", "cost of a row for each proxy and the oracle", _costs)
    maxOracleCalls: Param[int] = Param(
        UNBOUND,
        "maxOracleCalls",
        "rows of the sample that the oracle is asked, at most",
        at_least("maxOracleCalls", 1),
    )

    def __init__(self) -> None:
        super().__init__()
        self._setDefault(target=0.98, delta=0.05, metric="accuracy", seed=0)

    getTarget, setTarget = accessors(target, "the least value of the metric")
    getDelta, setDelta = accessors(delta, "the probability that the target is missed")
    getMetric, setMetric = accessors(metric, "the metric relative to the oracle")
    getPositive, setPositive = optional_accessors(positive, "the class that precision and recall count")
    getCosts, setCosts = optional_accessors(costs, "the costs of a row that replace measured ones")
    getMaxOracleCalls, setMaxOracleCalls = optional_accessors(maxOracleCalls, "the largest number of oracle calls")
    setSeed = setter(HasSeed.seed, "the seed of the order in which rows of the sample are drawn")
