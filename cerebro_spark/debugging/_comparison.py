"""Comparison of two models on one held-out table, with a bootstrap confidence interval."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from pyspark.sql import functions as F

from cerebro_spark.errors import EmptyInputError, InvalidArgumentError
from optimizer.arguments import one_of, real, whole
from udfs.driver import check_present, quoted, validate_arguments

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from pyspark.sql import Column, DataFrame

    from cerebro_spark.tune import TunedModel

__all__ = ["ModelComparison", "compare_models", "row_errors"]

_METRICS = ("accuracy", "mae", "mse")


@dataclass(frozen=True, slots=True)
class ModelComparison:
    """Difference between two models on the same rows.

    Attributes
    ----------
    metric : str
        Name of the metric.
    first, second : float
        Values of the metric.
    difference : float
        Second value minus first value.
    low, high : float
        Ends of the confidence interval of the difference.
    confidence : float
        Level of the interval, such as 0.95.
    rows : int
        Number of rows that both models were compared on.
    left_out : int
        Number of rows with a null label, or that a model could not read.

    Examples
    --------
    >>> print(ModelComparison("accuracy", 0.8, 0.83, 0.03, 0.01, 0.05, 0.95, 1000, 0).explain())
    accuracy on 1,000 rows: 0.8 -> 0.83, a difference of +0.03 (95 % interval +0.01 to +0.05): significant
    """

    metric: str
    first: float
    second: float
    difference: float
    low: float
    high: float
    confidence: float
    rows: int
    left_out: int

    @property
    def is_significant(self) -> bool:
        """True if the interval does not contain 0."""
        return not self.low <= 0 <= self.high

    def explain(self) -> str:
        """Describe the comparison in one line."""
        verdict = "significant" if self.is_significant else "not significant"
        left_out = f"; {self.left_out:,} rows are left out, with a null or not readable" if self.left_out else ""
        return (
            f"{self.metric} on {self.rows:,} rows: {self.first:.4g} -> {self.second:.4g}, a difference of "
            f"{self.difference:+.4g} ({self.confidence * 100:g} % interval {self.low:+.4g} to {self.high:+.4g}): "
            f"{verdict}{left_out}"
        )


@validate_arguments
def compare_models(
    first: TunedModel,
    second: TunedModel,
    df: DataFrame,
    *,
    metric: str | None = None,
    confidence: float = 0.95,
    resamples: int = 2000,
    seed: int = 0,
) -> ModelComparison:
    """Compare two models on one held-out table, such as before and after a correction of labels.

    The interval is the percentile interval of a paired bootstrap over rows: each resample has the same rows for both
    models. The held-out labels must be right: labels with errors count against the better model.

    Parameters
    ----------
    first, second : TunedModel
        Models of the same label column.
    df : DataFrame
        Rows that neither model was trained on, with the feature columns of both and the label column.
    metric : {"accuracy", "mae", "mse"}, optional
        Metric to compare. By default the accuracy of classes, and the mean absolute error of other labels.
    confidence : float
        Level of the interval, above 0 and below 1. Default 0.95.
    resamples : int
        Number of bootstrap resamples, at least 100. Default 2000.
    seed : int
        Seed of the resamples. Default 0.

    Returns
    -------
    ModelComparison
        Values of both models, their difference, and its interval.

    Raises
    ------
    ColumnError
        A column is missing.
    InvalidArgumentError
        The models have different label columns or encodings, or a value is not allowed.
    EmptyInputError
        No row has a label and predictions of both models.

    Examples
    --------
    Compare the models of two searches::

        print(compare_models(before.best_model, after.best_model, held_out).explain())
    """
    real("confidence", confidence, 0, 1, above=True)
    whole("resamples", resamples, 100)
    if (first.label_column, first.task.labels) != (second.label_column, second.task.labels):
        raise InvalidArgumentError(
            "first and second must be models of the same labels, got "
            f"{first.label_column!r} ({first.task.labels}) and {second.label_column!r} ({second.task.labels})."
        )
    name = metric or ("accuracy" if first.task.kind in {"binary", "multiclass"} else "mae")
    one_of("metric", name, _METRICS)
    errors = _paired_errors(first, second, df, name)
    good = ~np.isnan(errors).any(axis=1)
    if not good.any():
        raise EmptyInputError("df must have rows with a label that both models can read, got none.")
    means = errors[good].mean(axis=0)
    low, high = _interval(errors[good, 1] - errors[good, 0], confidence, resamples, seed)
    if name == "accuracy":
        means, (low, high) = 1 - means, (-high, -low)
    return ModelComparison(
        name,
        float(means[0]),
        float(means[1]),
        float(means[1] - means[0]),
        low,
        high,
        confidence,
        int(good.sum()),
        int((~good).sum()),
    )


def row_errors(model: TunedModel, df: DataFrame, output: str, metric: str) -> DataFrame:
    """Add the error of each row: 0 or 1 for a class, and a distance for values; null where there is none."""
    label = F.col(quoted(model.label_column))
    prediction = F.col(quoted(model.getPredictionCol()))
    return model.transform(df).withColumn(output, _error(prediction, label, metric)).select(*df.columns, output)


def _error(prediction: Column, label: Column, metric: str) -> Column:
    if metric == "accuracy":
        return (prediction != label).cast("double")
    distance = F.abs(prediction - label)
    return distance * distance if metric == "mse" else distance


def _paired_errors(first: TunedModel, second: TunedModel, df: DataFrame, metric: str) -> NDArray[np.float64]:
    """Return the errors of both models in one pass over the rows, NaN where there is none."""
    label = first.label_column
    check_present(df, [label], "df")
    scored, columns = df, []
    for place, model in enumerate((first, second)):
        prediction = f"__prediction_{place}"
        named = model.copy().setPredictionCol(prediction).setRawPredictionCol(f"__raw_{place}").setProbabilityCol("")
        scored = named.transform(scored)
        error = _error(F.col(prediction), F.col(quoted(label)), metric)
        columns.append(F.coalesce(error.cast("double"), F.lit(float("nan"))).alias(f"error_{place}"))
    return np.asarray(scored.select(*columns).toPandas().to_numpy(), np.float64)


def _interval(differences: NDArray[np.float64], confidence: float, resamples: int, seed: int) -> tuple[float, float]:
    """Return the percentile interval of the mean of resampled differences.

    Differences are counted by value first: a resample is then a draw of counts, and 0/1 errors have three values.
    """
    values, counts = np.unique(differences, return_counts=True)
    drawn = np.random.default_rng(seed)
    rows = len(differences)
    shares = counts / rows
    block = max(1, 10_000_000 // len(values))
    means = np.concatenate(
        [
            drawn.multinomial(rows, shares, min(block, resamples - start)) @ values / rows
            for start in range(0, resamples, block)
        ]
    )
    low, high = np.quantile(means, [(1 - confidence) / 2, (1 + confidence) / 2])
    return float(low), float(high)
