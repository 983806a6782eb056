"""What classifiers of Spark ML share: columns of raw predictions, probabilities and predictions."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from optimizer.compiling import Above, ArgMax, Arithmetic, Concatenate, Reduce, Sigmoid, Softmax
from vista_spark.compiling.sparkml._stages import refuse

if TYPE_CHECKING:
    from vista_spark.compiling.sparkml._columns import Columns

__all__ = ["both_margins", "features_of", "give_classes", "shares_of_margin", "softmax_of", "threshold_of"]


def features_of(model: Any, columns: Columns, width: int | None = None) -> str:
    """Give the node of the features that a model reads."""
    return columns.vector(model.getFeaturesCol(), model.numFeatures if width is None else width)


def both_margins(columns: Columns, margin: str) -> str:
    """Give the raw predictions of two classes: minus the margin, and the margin."""
    return columns.add(Concatenate(), columns.add(Arithmetic("multiply", np.full(1, -1.0)), margin), margin)


def shares_of_margin(columns: Columns, margin: str, factor: float = 1.0) -> str:
    """Give the probabilities of two classes: the logistic function of minus the margin, and the rest."""
    first = columns.add(Sigmoid(), columns.add(Arithmetic("multiply", np.full(1, -factor)), margin))
    rest = columns.add(Arithmetic("add", np.ones(1)), columns.add(Arithmetic("multiply", np.full(1, -1.0)), first))
    return columns.add(Concatenate(), first, rest)


def softmax_of(columns: Columns, scores: str, who: str) -> str:
    """Give probabilities of scores. Infinite ones, for which Spark ML has rules of its own, are bad."""
    most = columns.add(Reduce("max"), scores)
    infinite = columns.add(Above(float(np.finfo(np.float64).max), or_equal=False), most)
    held = columns.reject(scores, infinite, f"an infinite score, of which {who} makes no probability", "raise")
    return columns.add(Softmax(), held)


def threshold_of(threshold: float) -> float:
    """Give the margin at which a probability is at a threshold."""
    if threshold <= 0:
        return -math.inf
    return math.inf if threshold >= 1 else math.log(threshold / (1 - threshold))


def give_classes(
    model: Any, columns: Columns, raw: str, shares: str | None, *, margin: tuple[str, float] | None = None
) -> None:
    """Add the columns of a classifier.

    Parameters
    ----------
    model : Model
    columns : Columns
    raw, shares : str
        Nodes of raw predictions and probabilities; some models have none of the latter.
    margin : (str, float), optional
        A node and a threshold: class 1 above it. The greatest raw prediction is the class otherwise.

    Raises
    ------
    UnsupportedOperatorError
        The model leaves out the column that Spark ML computes predictions from.
    """
    if not model.getRawPredictionCol():
        raise refuse(model, "rawPredictionCol=''")
    columns.give(model.getRawPredictionCol(), raw, role="decision_function")
    if shares is not None:
        columns.give(model.getProbabilityCol(), shares, role="predict_proba")
    if margin is not None:
        place = columns.add(Above(margin[1], or_equal=False), margin[0])
    elif shares is not None and model.isDefined(model.thresholds):
        limits = np.asarray(model.getThresholds(), np.float64)
        place = columns.add(ArgMax("left out"), columns.add(Arithmetic("divide", limits), shares))
    else:
        place = columns.add(ArgMax("stays first"), raw)
    columns.give(model.getPredictionCol(), place, flat=True, role="predict")
