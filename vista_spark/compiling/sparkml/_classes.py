"""Columns of Spark ML classifiers: raw predictions, probabilities and predictions."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

import optimizer.compiling as ops
from vista_spark.compiling._refusals import refuse

if TYPE_CHECKING:
    from vista_spark.compiling.sparkml._columns import Columns

__all__ = ["both_margins", "features_of", "give_classes", "shares_of_margin", "threshold_of"]


def features_of(model: Any, columns: Columns, width: int | None = None) -> str:
    """Return the node of the features that a model reads."""
    return columns.vector(model.getFeaturesCol(), model.numFeatures if width is None else width)


def both_margins(columns: Columns, margin: str) -> str:
    """Return the raw predictions of two classes: minus the margin, and the margin."""
    return columns.add(ops.Concatenate(), columns.add(ops.Arithmetic("multiply", np.full(1, -1.0)), margin), margin)


def shares_of_margin(columns: Columns, margin: str, factor: float = 1.0) -> str:
    """Return the probabilities of two classes by the logistic function of the margin."""
    first = columns.add(ops.Sigmoid(), columns.add(ops.Arithmetic("multiply", np.full(1, -factor)), margin))
    rest = columns.add(
        ops.Arithmetic("add", np.ones(1)), columns.add(ops.Arithmetic("multiply", np.full(1, -1.0)), first)
    )
    return columns.add(ops.Concatenate(), first, rest)


def threshold_of(threshold: float) -> float:
    """Convert a threshold of probabilities to a margin."""
    if threshold <= 0:
        return -math.inf
    return math.inf if threshold >= 1 else math.log(threshold / (1 - threshold))


def give_classes(
    model: Any, columns: Columns, raw: str, shares: str | None, *, margin: tuple[str, float] | None = None
) -> None:
    """Add the columns of a classifier.

    ``raw`` and ``shares`` are nodes of raw predictions and probabilities, ``None`` for a model without them. ``margin``
    is a node with the threshold above which class 1 is predicted; by default the greatest raw prediction wins. Raise
    UnsupportedOperatorError if the model leaves out the column that Spark ML computes predictions from.
    """
    if not model.getRawPredictionCol():
        raise refuse(model, "rawPredictionCol=''")
    columns.add_column(model.getRawPredictionCol(), raw, role="decision_function")
    if shares is not None:
        columns.add_column(model.getProbabilityCol(), shares, role="predict_proba")
    if margin is not None:
        place = columns.add(ops.Above(margin[1], or_equal=False), margin[0])
    elif shares is not None and model.hasParam("thresholds") and model.isDefined("thresholds"):
        limits = np.asarray(model.getThresholds(), np.float64)
        place = columns.add(ops.ArgMax("left out"), columns.add(ops.Arithmetic("divide", limits), shares))
    else:
        place = columns.add(ops.ArgMax("stays first"), raw)
    columns.add_column(model.getPredictionCol(), place, flat=True, role="predict")
