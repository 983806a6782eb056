"""The downstream model: any Spark ML estimator, pointed at the columns of the transfer, trained and scored."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.ml import Estimator, Pipeline
from pyspark.ml.evaluation import Evaluator, MulticlassClassificationEvaluator, RegressionEvaluator
from pyspark.ml.feature import PCA

from vista_spark.errors import InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from pyspark.ml.param import Param, Params

__all__ = [
    "check_estimator",
    "check_width",
    "columns_read",
    "default_evaluator",
    "indexed_label",
    "is_classification",
    "metric_name",
    "point_at",
]

# Params that name columns which a stage adds; the other Params of columns name what it reads.
_ADDED = ("output", "prediction", "probability", "rawPrediction", "leaf", "quantiles", "error")


def point_at(stage: Params, features: str, label: str) -> Any:
    """Copy an estimator or evaluator so that it reads two columns.

    Reaches into what holds others: the estimator and evaluator of a ``CrossValidator`` or ``TrainValidationSplit``, the
    classifier of a ``OneVsRest``. Of the stages of a ``Pipeline`` only columns that were never set are pointed: its
    inner columns are the user's own, and the first of its stages reads ``features``.

    Parameters
    ----------
    stage : Params
    features, label : str
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
        for held in stage.getStages():
            yield from _settings(held, features, label, inner=True)


def _stages(stage: Params) -> Iterator[Params]:
    """Walk a stage and all that it holds."""
    yield stage
    for name in ("estimator", "evaluator", "classifier"):
        if stage.hasParam(name) and stage.isDefined(name):
            yield from _stages(stage.getOrDefault(name))
    if isinstance(stage, Pipeline):
        for held in stage.getStages():
            yield from _stages(held)


def columns_read(stage: Params, columns: Collection[str]) -> tuple[str, ...]:
    """List the columns of a table that a stage, or one that it holds, was set to read.

    Parameters
    ----------
    stage : Params
        Pointed at its features and its label already.
    columns : collection of str
        The table's; a name that is not among them is that of a column which another stage adds.
    """
    read: dict[str, None] = {}
    for each in _stages(stage):
        for param in each.params:
            role, is_column, _ = param.name.partition("Col")
            if not is_column or role.startswith(_ADDED) or not each.isSet(param):
                continue
            value = each.getOrDefault(param)
            names = [value] if isinstance(value, str) else value
            read.update(dict.fromkeys(name for name in names if name in columns))
    return tuple(read)


def indexed_label(estimator: Params, label: str) -> str | None:
    """Name the column that a stage of a pipeline makes of the label, where one does."""
    if not isinstance(estimator, Pipeline):
        return None
    for stage in estimator.getStages():
        is_set = all(stage.hasParam(name) and stage.isSet(name) for name in ("inputCol", "outputCol"))
        if is_set and stage.getOrDefault("inputCol") == label:
            return str(stage.getOrDefault("outputCol"))
    return None


def check_width(estimator: Params, features: str, width: Callable[[], int]) -> None:
    """Raise ``InvalidArgumentError`` where a ``PCA`` wants more components than the baseline has features.

    Parameters
    ----------
    estimator : Params
    features : str
        The column of assembled features.
    width : callable
        Counts the structured features; called where there is a ``PCA``.
    """
    for stage in _stages(estimator):
        if isinstance(stage, PCA) and stage.isDefined("k") and stage.isDefined("inputCol"):
            components = stage.getOrDefault("k")
            if stage.getOrDefault("inputCol") == features and components > (count := width()):
                raise InvalidArgumentError(
                    f"downstream has PCA(k={components}), and the baseline, which it is trained on too, has {count} "
                    f"structured features: PCA makes no more components than that. Give k={count} or less, or more "
                    "structured features"
                )


def is_classification(estimator: Params) -> bool:
    """Whether an estimator, or the one it holds, is a classifier."""
    if estimator.hasParam("probabilityCol") or estimator.hasParam("rawPredictionCol"):
        return True
    for name in ("estimator", "classifier"):
        if estimator.hasParam(name) and estimator.isDefined(name):
            return name == "classifier" or is_classification(estimator.getOrDefault(name))
    if isinstance(estimator, Pipeline) and estimator.getStages():
        return is_classification(estimator.getStages()[-1])
    return False


def default_evaluator(estimator: Estimator[Any]) -> Evaluator:
    """F1 for a classifier (as in Vista, section 5.2), the root mean squared error for anything else."""
    if is_classification(estimator):
        return MulticlassClassificationEvaluator(metricName="f1")
    return RegressionEvaluator(metricName="rmse")


def metric_name(evaluator: Evaluator) -> str:
    """The evaluator's own name of its metric."""
    if evaluator.hasParam("metricName"):
        return str(evaluator.getOrDefault("metricName"))
    return type(evaluator).__name__


def check_estimator(downstream: object) -> None:
    """Raise ``InvalidArgumentError`` unless it can be fitted."""
    if not hasattr(downstream, "fit") or not hasattr(downstream, "hasParam"):
        raise InvalidArgumentError(
            f"downstream={downstream!r}: a Spark ML estimator, such as pyspark.ml.classification.LogisticRegression()"
        )
