"""Measures of a perceptron's predictions on rows whose label is known, as Spark ML's own summaries name them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.ml.evaluation import MulticlassClassificationEvaluator, RegressionEvaluator

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["MLPClassificationSummary", "MLPRegressionSummary"]


class _Summary:
    """Predictions beside the labels, measured when they are asked for.

    Parameters
    ----------
    predictions : DataFrame
        Predictions of the model, with the label as a double, without rows that lack a prediction, label or weight.
    """

    def __init__(
        self, predictions: DataFrame, prediction_column: str, label_column: str, weight_column: str | None
    ) -> None:
        self.predictions = predictions
        self.predictionCol = prediction_column
        self.labelCol = label_column
        self.weightCol = weight_column

    @property
    def numInstances(self) -> int:
        """Number of rows that were predicted."""
        return self.predictions.count()

    def _evaluated(self, evaluator: MulticlassClassificationEvaluator | RegressionEvaluator) -> float:
        if self.weightCol is not None:
            evaluator.setWeightCol(self.weightCol)
        return float(evaluator.evaluate(self.predictions))


class MLPClassificationSummary(_Summary):
    """Measures of :meth:`vista_spark.MLPClassificationModel.evaluate`; each is a pass over the predictions."""

    __module__ = "vista_spark"

    @property
    def accuracy(self) -> float:
        """Share of the rows whose class was predicted."""
        return self._measured("accuracy")

    @property
    def weightedPrecision(self) -> float:
        """Mean precision of the classes, each by its share of the rows."""
        return self._measured("weightedPrecision")

    @property
    def weightedRecall(self) -> float:
        """Mean recall of the classes, each by its share of the rows."""
        return self._measured("weightedRecall")

    def weightedFMeasure(self, beta: float = 1.0) -> float:
        """Return the mean F-measure of the classes, weighted by their shares of the rows."""
        return self._measured("weightedFMeasure", beta)

    def _measured(self, name: str, beta: float = 1.0) -> float:
        evaluator = MulticlassClassificationEvaluator(
            metricName=name,  # type: ignore[arg-type]
            beta=beta,
            predictionCol=self.predictionCol,
            labelCol=self.labelCol,
        )
        return self._evaluated(evaluator)


class MLPRegressionSummary(_Summary):
    """Measures of :meth:`vista_spark.MLPRegressionModel.evaluate`; each is a pass over the predictions."""

    __module__ = "vista_spark"

    @property
    def rootMeanSquaredError(self) -> float:
        """Root of the mean of the squared errors."""
        return self._measured("rmse")

    @property
    def meanSquaredError(self) -> float:
        """Mean of the squared errors."""
        return self._measured("mse")

    @property
    def meanAbsoluteError(self) -> float:
        """Mean of the errors without their signs."""
        return self._measured("mae")

    @property
    def r2(self) -> float:
        """Share of the labels' variance that the predictions explain."""
        return self._measured("r2")

    def _measured(self, name: str) -> float:
        evaluator = RegressionEvaluator(
            metricName=name,  # type: ignore[arg-type]
            predictionCol=self.predictionCol,
            labelCol=self.labelCol,
        )
        return self._evaluated(evaluator)
