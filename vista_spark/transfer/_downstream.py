"""The downstream model: any Spark ML estimator, pointed at the columns of the transfer, trained and scored."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.ml import Estimator, Pipeline
from pyspark.ml.evaluation import Evaluator, MulticlassClassificationEvaluator, RegressionEvaluator

from vista_spark.errors import InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.ml.param import Param, Params

__all__ = ["default_evaluator", "is_classification", "metric_name", "point_at"]


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
