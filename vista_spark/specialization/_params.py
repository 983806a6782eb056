"""Params that the specialised classifier and its model share."""

from __future__ import annotations

from typing import Any

from pyspark.ml.param import Param, TypeConverters
from pyspark.ml.param.shared import (
    HasInputCol,
    HasLabelCol,
    HasOutputCol,
    HasSeed,
    HasValidationIndicatorCol,
)

from udfs.driver import UNBOUND, accessors, at_least, one_of, optional_accessors, setter

__all__ = ["METHODS", "SpecializedColumns", "SpecializedSettings"]

METHODS = ("reweight", "retrain")
"""Ways in which experts are made."""


def _margin(value: Any) -> float:
    number = TypeConverters.toFloat(value)
    if not -1 <= number <= 1:
        raise TypeError(f"margin must be a number from -1 to 1, got {value!r}.")
    return number


def _share(name: str, *, least: float = 0.0) -> Any:
    def convert(value: Any) -> float:
        number = TypeConverters.toFloat(value)
        if not least <= number < 1:
            raise TypeError(f"{name} must be a number from {least:g} to 1, without 1, got {value!r}.")
        return number

    return convert


def _difference(value: Any) -> float:
    number = TypeConverters.toFloat(value)
    if not 0 <= number < float("inf"):
        raise TypeError(f"difference must be a number of at least 0, got {value!r}.")
    return number


def _sizes(value: Any) -> list[int]:
    numbers = TypeConverters.toListInt(value)
    if not numbers or numbers != sorted(set(numbers)) or numbers[0] < 1:
        raise TypeError(f"classCounts must be a list of increasing positive integers, got {value!r}.")
    return numbers


def _skews(value: Any) -> list[float]:
    numbers = TypeConverters.toListFloat(value)
    if not numbers or not all(0 < number < 1 for number in numbers):
        raise TypeError(f"skews must be a list of numbers above 0 and below 1, got {value!r}.")
    return numbers


class SpecializedColumns(HasInputCol, HasOutputCol):
    """Columns of a specialised classifier."""

    groupCol: Param[str] = Param(UNBOUND, "groupCol", "column of the stream's name", TypeConverters.toString)
    orderCol: Param[str] = Param(UNBOUND, "orderCol", "column of the frames' order", TypeConverters.toString)
    modelCol: Param[str] = Param(UNBOUND, "modelCol", "column for the model that answered", TypeConverters.toString)
    phaseCol: Param[str] = Param(UNBOUND, "phaseCol", "column for the phase of the stream", TypeConverters.toString)
    confidenceCol: Param[str] = Param(
        UNBOUND, "confidenceCol", "column for the probability of the answer", TypeConverters.toString
    )
    errorCol: Param[str] = Param(UNBOUND, "errorCol", "column for the reason of a bad frame", TypeConverters.toString)
    difference: Param[float] = Param(
        UNBOUND, "difference", "largest difference of a frame that repeats an earlier one", _difference
    )
    batchSize: Param[int] = Param(
        UNBOUND, "batchSize", "frames that a compact model answers together", at_least("batchSize", 1)
    )
    trainingTimeout: Param[int] = Param(
        UNBOUND, "trainingTimeout", "seconds after which a training counts as failed", at_least("trainingTimeout", 1)
    )

    def __init__(self) -> None:
        super().__init__()
        self._setDefault(
            inputCol="frame",
            outputCol="prediction",
            orderCol="t",
            modelCol="model",
            phaseCol="phase",
            confidenceCol="confidence",
            errorCol="frame_error",
            batchSize=32,
            trainingTimeout=60,
        )

    setInputCol = setter(HasInputCol.inputCol, "the column of frames")
    setOutputCol = setter(HasOutputCol.outputCol, "the column for the answer")
    getGroupCol, setGroupCol = optional_accessors(groupCol, "the column of the stream's name")
    getOrderCol, setOrderCol = accessors(orderCol, "the column of the frames' order")
    getModelCol, setModelCol = accessors(modelCol, "the column for the model that answered")
    getPhaseCol, setPhaseCol = accessors(phaseCol, "the column for the phase of the stream")
    getConfidenceCol, setConfidenceCol = accessors(confidenceCol, "the column for the probability of the answer")
    getErrorCol, setErrorCol = accessors(errorCol, "the column for the reason of a bad frame")
    getDifference, setDifference = optional_accessors(difference, "the largest difference of a repetition")
    getBatchSize, setBatchSize = accessors(batchSize, "the frames that a compact model answers together")
    getTrainingTimeout, setTrainingTimeout = accessors(trainingTimeout, "the seconds that a training may take")


class SpecializedSettings(HasLabelCol, HasSeed, HasValidationIndicatorCol):
    """Settings of the algorithm and of the measurements of fit."""

    margin: Param[float] = Param(UNBOUND, "margin", "least expected accuracy relative to the oracle's", _margin)
    epsilon: Param[float] = Param(UNBOUND, "epsilon", "probability of a check by the oracle", _share("epsilon"))
    window: Param[int] = Param(
        UNBOUND, "window", "answers of the oracle before the first decision", at_least("window", 2)
    )
    trainingFrames: Param[int] = Param(
        UNBOUND, "trainingFrames", "frames before a new expert takes over", at_least("trainingFrames", 0)
    )
    method: Param[str] = Param(UNBOUND, "method", " | ".join(METHODS), one_of("method", METHODS))
    skews: Param[list[float]] = Param(UNBOUND, "skews", "shares of the dominant classes that experts assume", _skews)
    experts: Param[int] = Param(UNBOUND, "experts", "experts that are kept for each stream", at_least("experts", 1))
    classCounts: Param[list[int]] = Param(
        UNBOUND, "classCounts", "numbers of dominant classes for which accuracies are measured", _sizes
    )
    draws: Param[int] = Param(UNBOUND, "draws", "random sets of classes per number", at_least("draws", 1))
    holdout: Param[float] = Param(
        UNBOUND, "holdout", "share of the rows on which accuracies are measured", _share("holdout", least=0.01)
    )
    oracleRows: Param[int] = Param(
        UNBOUND, "oracleRows", "rows on which the oracle is measured, at most", at_least("oracleRows", 1)
    )
    maxRows: Param[int] = Param(UNBOUND, "maxRows", "training rows that are used, at most", at_least("maxRows", 2))

    def __init__(self) -> None:
        super().__init__()
        self._setDefault(
            labelCol="label",
            margin=-0.01,
            epsilon=0.03,
            method="reweight",
            skews=[0.5, 0.8],
            experts=8,
            classCounts=[1, 2, 5, 10, 20],
            draws=5,
            holdout=0.3,
            oracleRows=200,
            maxRows=20_000,
            seed=0,
        )

    setLabelCol = setter(HasLabelCol.labelCol, "the column of labels")
    setValidationIndicatorCol = setter(
        HasValidationIndicatorCol.validationIndicatorCol, "the column that marks rows on which accuracies are measured"
    )
    setSeed = setter(HasSeed.seed, "the seed of checks and of measured sets of classes")
    getMargin, setMargin = accessors(margin, "the least difference of the expected accuracy to the oracle's")
    getEpsilon, setEpsilon = accessors(epsilon, "the probability of a check by the oracle")
    getWindow, setWindow = optional_accessors(window, "the answers of the oracle before the first decision")
    getTrainingFrames, setTrainingFrames = optional_accessors(trainingFrames, "the frames before an expert takes over")
    getMethod, setMethod = accessors(method, "the way in which experts are made")
    getSkews, setSkews = accessors(skews, "the shares of the dominant classes that experts assume")
    getExperts, setExperts = accessors(experts, "the number of experts kept for each stream")
    getClassCounts, setClassCounts = accessors(classCounts, "the numbers of dominant classes that are measured")
    getDraws, setDraws = accessors(draws, "the random sets of classes per number")
    getHoldout, setHoldout = accessors(holdout, "the share of rows on which accuracies are measured")
    getOracleRows, setOracleRows = accessors(oracleRows, "the largest number of rows the oracle is measured on")
    getMaxRows, setMaxRows = accessors(maxRows, "the largest number of training rows")
