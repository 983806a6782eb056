"""Downstream model: any Spark ML estimator, pointed at the columns of the transfer."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from pyspark.ml import Estimator, Pipeline
from pyspark.ml.evaluation import Evaluator, MulticlassClassificationEvaluator, RegressionEvaluator
from pyspark.ml.feature import PCA, Imputer, MaxAbsScaler, MinMaxScaler, Normalizer, RobustScaler, StandardScaler

from vista_spark.errors import InvalidArgumentError
from vista_spark.transfer._columns import ColumnsRead

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from pyspark.ml.param import Param, Params

__all__ = [
    "check_estimator",
    "check_width",
    "columns_read",
    "default_evaluator",
    "is_classification",
    "learned_column",
    "metric_name",
    "point_at",
]

_COLUMN_PARAM = re.compile("Cols?$")
# Params that name columns which a stage adds; the other Params of columns name what it reads.
_ADDED = ("output", "prediction", "probability", "rawPrediction", "leaf", "quantiles", "error")
# Params of columns that only fit() reads.
_TRAINING_ONLY = ("label", "weight", "censor", "validationIndicator")
# Params of stages that predict, or that hold such stages.
_PREDICTING = ("predictionCol", "estimator", "stages")
_SAME_WIDTH = (StandardScaler, MinMaxScaler, MaxAbsScaler, RobustScaler, Normalizer)


def point_at(stage: Params, features: str, label: str) -> Any:
    """Copy an estimator or evaluator so that it reads two columns.

    This includes nested stages: the estimator and evaluator of a ``CrossValidator`` or ``TrainValidationSplit``, and
    the classifier of a ``OneVsRest``. In the stages of a ``Pipeline`` only columns that were never set are changed: the
    user chooses the inner columns, and the first stage reads ``features``.
    """
    return stage.copy(dict(_settings(stage, features, label, inner=False)))


def _settings(stage: Params, features: str, label: str, *, inner: bool) -> Iterator[tuple[Param[Any], Any]]:
    for name, value in (("featuresCol", features), ("labelCol", label)):
        if stage.hasParam(name) and not (inner and stage.isSet(name)):
            yield stage.getParam(name), value
    for name in ("estimator", "evaluator", "classifier"):
        if stage.hasParam(name) and stage.isDefined(name):
            yield from _settings(stage.getOrDefault(name), features, label, inner=inner)
    if isinstance(stage, Pipeline):
        for part in stage.getStages():
            yield from _settings(part, features, label, inner=True)


def _stages(stage: Params, *, in_pipeline: bool = False) -> Iterator[tuple[Params, bool]]:
    """Walk a stage and all that it holds, in the order of a pipeline; each with whether a pipeline holds it."""
    yield stage, in_pipeline
    for name in ("estimator", "evaluator", "classifier"):
        if stage.hasParam(name) and stage.isDefined(name):
            yield from _stages(stage.getOrDefault(name), in_pipeline=in_pipeline)
    if isinstance(stage, Pipeline):
        for inner in stage.getStages():
            yield from _stages(inner, in_pipeline=True)


def _named(stage: Params, param: str) -> tuple[str, ...]:
    """List the columns that a Param was set to name; none where it was not set."""
    if not stage.hasParam(param) or not stage.isSet(param):
        return ()
    value = stage.getOrDefault(param)
    names = value if isinstance(value, (list, tuple)) else (value,)
    return tuple(name for name in names if isinstance(name, str))


def _made(stage: Params) -> Iterator[tuple[str, str]]:
    """Pair the columns that a stage reads with those that it makes of them."""
    yield from zip(_named(stage, "inputCol"), _named(stage, "outputCol"), strict=False)
    yield from zip(_named(stage, "inputCols"), _named(stage, "outputCols"), strict=False)


def _accepts_nulls(stage: Params) -> bool:
    if isinstance(stage, Imputer):
        return True
    has_policy = stage.hasParam("handleInvalid") and stage.isDefined("handleInvalid")
    return has_policy and stage.getOrDefault("handleInvalid") == "keep"


def columns_read(estimator: Params, evaluator: Params | None, columns: Collection[str]) -> ColumnsRead:
    """List the columns of a table that an estimator or evaluator, or its nested stages, read.

    The Params are pointed at the features and the label already. A name that is not among the table's ``columns`` is
    that of a column which another stage adds.
    """
    made: set[str] = set()
    training: dict[str, None] = {}
    prediction: dict[str, None] = {}
    required: set[str] = set()
    for stage, _ in _stages(estimator):
        for param in stage.params:
            role = _COLUMN_PARAM.sub("", param.name)
            if role == param.name or role.startswith(_ADDED):
                continue
            read = [name for name in _named(stage, param.name) if name in columns and name not in made]
            training.update(dict.fromkeys(read))
            if role not in _TRAINING_ONLY:
                prediction.update(dict.fromkeys(read))
            if not _accepts_nulls(stage):
                required.update(read)
        for param in stage.params:
            if _COLUMN_PARAM.sub("", param.name).startswith(_ADDED):
                made.update(_named(stage, param.name))
    if evaluator is not None:
        weights = [name for name in _named(evaluator, "weightCol") if name in columns]
        training.update(dict.fromkeys(weights))
        required.update(weights)
    return ColumnsRead(tuple(training), tuple(prediction), tuple(name for name in training if name not in required))


def learned_column(estimator: Params, label: str, columns: Collection[str]) -> str:
    """Name the column that an estimator learns: the label, or what the stages of a pipeline make of it.

    Raise InvalidArgumentError if a stage was set to learn another column of the table.
    """
    target, of_label = label, {label}
    for stage, in_pipeline in _stages(estimator):
        for read, made in _made(stage):
            if read == target:
                target = made
                of_label.add(made)
        for name in _named(stage, "labelCol") if in_pipeline else ():
            if name in columns and name not in of_label:
                raise InvalidArgumentError(
                    f"{type(stage).__name__} of the downstream pipeline has labelCol={name!r}, and the transfer's "
                    f"label is {label!r}: give label_column={name!r}, or leave labelCol out"
                )
            target = name
    return target


def check_width(estimator: Params, features: str, width: Callable[[], int]) -> None:
    """Raise ``InvalidArgumentError`` where a ``PCA`` wants more components than the baseline has features.

    ``width`` counts the structured features; it is called where there is a ``PCA``.
    """
    same_width = {features}
    grids = [
        grid
        for stage, _ in _stages(estimator)
        if stage.hasParam("estimatorParamMaps") and stage.isDefined("estimatorParamMaps")
        for grid in stage.getOrDefault("estimatorParamMaps")
    ]
    for stage, _ in _stages(estimator):
        if isinstance(stage, _SAME_WIDTH):
            same_width.update(made for read, made in _made(stage) if read in same_width)
        if isinstance(stage, PCA) and same_width.intersection(_named(stage, "inputCol")):
            tried = [grid[stage.k] for grid in grids if stage.k in grid]
            components = max(tried or ([stage.getOrDefault("k")] if stage.isDefined("k") else [0]))
            if components > (count := width()):
                raise InvalidArgumentError(
                    f"downstream has PCA(k={components}), and the baseline, which it is trained on too, has {count} "
                    f"structured features: PCA makes no more components than that. Give k={count} or less, or more "
                    "structured features"
                )


def is_classification(estimator: Params) -> bool:
    """Return whether an estimator, or the estimator inside it, is a classifier."""
    if estimator.hasParam("probabilityCol") or estimator.hasParam("rawPredictionCol"):
        return True
    for name in ("estimator", "classifier"):
        if estimator.hasParam(name) and estimator.isDefined(name):
            return name == "classifier" or is_classification(estimator.getOrDefault(name))
    if isinstance(estimator, Pipeline):
        # What follows the last one that predicts, such as an IndexToString, only names its predictions.
        predicting = [stage for stage in estimator.getStages() if any(map(stage.hasParam, _PREDICTING))]
        return bool(predicting) and is_classification(predicting[-1])
    return False


def default_evaluator(estimator: Estimator[Any]) -> Evaluator:
    """Return the default evaluator: F1 for a classifier (as in Vista, section 5.2), else root mean squared error."""
    if is_classification(estimator):
        return MulticlassClassificationEvaluator(metricName="f1")
    return RegressionEvaluator(metricName="rmse")


def metric_name(evaluator: Evaluator) -> str:
    """Return the evaluator's own name of its metric."""
    if evaluator.hasParam("metricName"):
        return str(evaluator.getOrDefault("metricName"))
    return type(evaluator).__name__


def check_estimator(downstream: object) -> None:
    """Raise ``InvalidArgumentError`` unless it can be fitted."""
    if not hasattr(downstream, "fit") or not hasattr(downstream, "hasParam"):
        raise InvalidArgumentError(
            f"downstream must be a Spark ML estimator, such as LogisticRegression(), got {downstream!r}."
        )
