"""Confidence intervals of a score, by bootstrap over the held-out rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from pyspark.ml.evaluation import MulticlassClassificationEvaluator, RegressionEvaluator

if TYPE_CHECKING:
    from collections.abc import Callable

    import pandas as pd
    from numpy.typing import NDArray
    from pyspark.ml.evaluation import Evaluator

    Floats = NDArray[np.float64]
    Metric = Callable[[Floats, Floats, Floats], Floats]

__all__ = ["LEVEL", "MOST_ROWS", "Interval", "metric_of", "resampled"]

Interval = tuple[float, float]

LEVEL = 0.95
"""Share of the resampled scores that lies within an interval."""

MOST_ROWS = 20_000
"""Rows held out of which the driver takes predictions; above, there are no intervals, which would be narrow."""

_RESAMPLES = 1_000
_CHUNK = 50
# Between the evaluator's score and the same one computed here.
_SAME = 1e-6


def metric_of(evaluator: Evaluator) -> Metric | None:
    """Find the metric of an evaluator as a function of weights, labels and predictions.

    It takes weights ``(resamples, rows)``, labels and predictions ``(rows,)``, and gives ``(resamples,)``. Return
    ``None`` for another evaluator, another metric, or one that weighs rows itself.
    """
    if type(evaluator) not in (MulticlassClassificationEvaluator, RegressionEvaluator):
        return None
    if evaluator.isSet("weightCol"):
        return None
    known = _CLASSIFICATION if isinstance(evaluator, MulticlassClassificationEvaluator) else _REGRESSION
    return known.get(str(evaluator.getOrDefault("metricName")))


def resampled(
    metric: Metric, held_out: pd.DataFrame, baseline: pd.DataFrame, score: float, *, sign: int, seed: int
) -> tuple[Interval, Interval] | None:
    """Resample the rows held out, with replacement, and score each sample (Efron, 1979; the percentile interval).

    The tables have columns ``label`` and ``prediction`` by id; the lift is that over the baseline, on the rows that
    both have. ``sign`` is -1 where a smaller score is better. Return the intervals of the score and of the lift, or
    ``None`` where the evaluator's ``score`` is not that of the predictions.
    """
    both = held_out.join(baseline["prediction"].rename("baseline"), how="inner")
    # Equal rows are one with a count: of a classifier only few are left.
    grouped = both.groupby(["label", "prediction", "baseline"], dropna=False).size()
    label, prediction, before = (
        grouped.index.get_level_values(name).to_numpy(dtype=np.float64) for name in ("label", "prediction", "baseline")
    )
    counts = np.asarray(grouped, dtype=np.float64)
    rows = int(counts.sum())
    whole = counts[None, :]
    if not rows or len(held_out) != rows:
        return None
    if not np.isclose(metric(whole, label, prediction)[0], score, rtol=_SAME, atol=_SAME):
        return None
    generator = np.random.default_rng(seed)
    scores, lifts = [], []
    for _ in range(_RESAMPLES // _CHUNK):
        weights = generator.multinomial(rows, counts / rows, size=_CHUNK).astype(np.float64)
        drawn = metric(weights, label, prediction)
        scores.append(drawn)
        lifts.append(sign * (drawn - metric(weights, label, before)))
    return _interval(np.concatenate(scores)), _interval(np.concatenate(lifts))


def _interval(drawn: Floats) -> Interval:
    with np.errstate(invalid="ignore"):  # r2 of a sample of one label
        low, high = np.nanquantile(drawn, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return float(low), float(high)


def _accuracy(weights: Floats, label: Floats, prediction: Floats) -> Floats:
    return np.asarray(weights @ (label == prediction) / weights.sum(1), dtype=np.float64)


def _f1(weights: Floats, label: Floats, prediction: Floats) -> Floats:
    return _by_class(weights, label, prediction, lambda hits, actual, said: 2 * hits / np.maximum(actual + said, 1))


def _precision(weights: Floats, label: Floats, prediction: Floats) -> Floats:
    return _by_class(weights, label, prediction, lambda hits, _, said: hits / np.maximum(said, 1))


def _by_class(
    weights: Floats, label: Floats, prediction: Floats, score: Callable[[Floats, Floats, Floats], Floats]
) -> Floats:
    """Average the scores of the classes by their rows, as Spark ML does."""
    total = np.zeros(len(weights))
    for kind in np.unique(label):
        actual, said = label == kind, prediction == kind
        rows = weights @ actual
        total += rows * score(weights @ (actual & said), rows, weights @ said)
    return np.asarray(total / weights.sum(1), dtype=np.float64)


def _mse(weights: Floats, label: Floats, prediction: Floats) -> Floats:
    return np.asarray(weights @ (label - prediction) ** 2 / weights.sum(1), dtype=np.float64)


def _rmse(weights: Floats, label: Floats, prediction: Floats) -> Floats:
    return np.sqrt(_mse(weights, label, prediction))


def _mae(weights: Floats, label: Floats, prediction: Floats) -> Floats:
    return np.asarray(weights @ np.abs(label - prediction) / weights.sum(1), dtype=np.float64)


def _r2(weights: Floats, label: Floats, prediction: Floats) -> Floats:
    mean = weights @ label / weights.sum(1)
    spread = weights @ label**2 / weights.sum(1) - mean**2
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(1 - _mse(weights, label, prediction) / spread, dtype=np.float64)


_CLASSIFICATION: dict[str, Metric] = {
    "f1": _f1,
    "accuracy": _accuracy,
    "weightedRecall": _accuracy,
    "weightedPrecision": _precision,
}
_REGRESSION: dict[str, Metric] = {"rmse": _rmse, "mse": _mse, "mae": _mae, "r2": _r2}
