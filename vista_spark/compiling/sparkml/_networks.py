"""Perceptrons and factorisation machines of Spark ML."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from optimizer.compiling import Arithmetic, Combine, Function, Linear, Reduce, Sigmoid
from vista_spark.compiling.sparkml._classes import (
    both_margins,
    features_of,
    give_classes,
    shares_of_margin,
    softmax_of,
)
from vista_spark.compiling.sparkml._stages import stage

if TYPE_CHECKING:
    from vista_spark.compiling.sparkml._columns import Columns

__all__ = ["lower_factorisation_classifier", "lower_factorisation_regressor", "lower_perceptron"]


@stage("MultilayerPerceptronClassificationModel")
def lower_perceptron(model: Any, columns: Columns) -> None:
    """Lower layers of logistic units, and a softmax. Each layer's weights lie column after column, then its bias."""
    sizes, weights = list(model.getLayers()), model.weights.toArray()
    node, start = features_of(model, columns), 0
    for place, (given, made) in enumerate(pairwise(sizes)):
        middle, end = start + given * made, start + given * made + made
        own = Linear(weights[start:middle].reshape(given, made).copy(), weights[middle:end].copy())
        node, start = columns.add(own, node), end
        if place < len(sizes) - 2:
            node = columns.add(Sigmoid(), node)
    give_classes(model, columns, node, softmax_of(columns, node, type(model).__name__))


@stage("FMClassificationModel")
def lower_factorisation_classifier(model: Any, columns: Columns) -> None:
    """Lower a factorisation machine of two classes."""
    margin = _margin(model, columns)
    give_classes(model, columns, both_margins(columns, margin), shares_of_margin(columns, margin))


@stage("FMRegressionModel")
def lower_factorisation_regressor(model: Any, columns: Columns) -> None:
    """Lower a factorisation machine."""
    columns.give(model.getPredictionCol(), _margin(model, columns), flat=True, role="predict")


def _margin(model: Any, columns: Columns) -> str:
    """Give the linear part, and half of the square of the sums minus the sum of the squares, factor by factor."""
    table, factors = features_of(model, columns), model.factors.toArray()
    weights = model.linear.toArray()[:, None].copy()
    linear = columns.add(Linear(weights, np.full(1, float(model.intercept))), table)
    nothing = np.zeros(factors.shape[1])
    sums = columns.add(Function("square"), columns.add(Linear(factors.copy(), nothing), table))
    squares = columns.add(Linear(np.square(factors), nothing), columns.add(Function("square"), table))
    pairs = columns.add(Reduce("sum"), columns.add(Combine("subtract"), sums, squares))
    return columns.add(Combine("add"), linear, columns.add(Arithmetic("multiply", np.full(1, 0.5)), pairs))
