"""A downstream model that learns nothing, for figures whose arrangements differ in inference alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.ml import Estimator, Model
from pyspark.ml.evaluation import Evaluator
from pyspark.ml.param.shared import HasFeaturesCol, HasLabelCol

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["NoModel", "NoScore"]


class _Untrained(Model):
    def _transform(self, dataset: DataFrame) -> DataFrame:
        return dataset


class NoModel(Estimator[_Untrained], HasFeaturesCol, HasLabelCol):
    """Runs no job; the planner takes it for a logistic regression, as everything that it does not know."""

    def _fit(self, _dataset: DataFrame) -> _Untrained:
        return _Untrained()


class NoScore(Evaluator):
    """Always 0."""

    def _evaluate(self, _dataset: DataFrame) -> float:
        return 0.0
