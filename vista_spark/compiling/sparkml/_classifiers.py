"""Naive Bayes, multilayer perceptrons and one-vs-rest classifiers of Spark ML."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

import optimizer.compiling as ops
from vista_spark.compiling._refusals import refuse
from vista_spark.compiling.sparkml._classes import (
    features_of,
    give_classes,
)
from vista_spark.compiling.sparkml._stages import lower_stage, stage

if TYPE_CHECKING:
    from vista_spark.compiling.sparkml._columns import Columns


@stage("NaiveBayesModel")
def lower_bayes(model: Any, columns: Columns) -> None:
    """Lower the four kinds: logarithms of likelihoods, and their softmax."""
    kind = model.getOrDefault("modelType")
    table, prior, theta = features_of(model, columns), model.pi.toArray(), model.theta.toArray()
    if kind == "gaussian":
        raw = _gaussian(columns, table, prior, theta, model.sigma.toArray())
    elif kind == "bernoulli":
        table = _held(columns, table, "bernoulli")
        none = np.log1p(-np.exp(theta))
        raw = columns.add(ops.Linear((theta - none).T.copy(), prior + none.sum(axis=1)), table)
    elif kind == "multinomial":
        raw = columns.add(ops.Linear(theta.T.copy(), prior.copy()), _held(columns, table, kind))
    elif kind == "complement":
        scores = columns.add(ops.Linear(theta.T.copy(), np.zeros(len(theta))), _held(columns, table, kind))
        raw = columns.add(ops.Combine("subtract"), scores, columns.add(ops.Reduce("logsumexp"), scores))
    else:
        raise refuse(model, f"modelType={kind!r}")
    give_classes(model, columns, raw, columns.add(ops.Softmax(), raw))


def _held(columns: Columns, table: str, kind: str) -> str:
    """Reject rows with numbers below 0, or with other numbers than 0 and 1."""
    if kind == "bernoulli":
        product = columns.add(ops.Combine("multiply"), table, columns.scaled(table, 1.0, -1.0))
        zero = columns.add(ops.Combine("equal"), product, columns.scaled(product, 0.0))
        flags, what = columns.add(ops.Function("not"), zero), "a number that is neither 0 nor 1"
    else:
        from_zero = columns.add(ops.Combine("greater_equal"), table, columns.add(ops.Function("abs"), table))
        flags, what = columns.add(ops.Function("not"), from_zero), "a number below zero, or NaN"
    return columns.reject(table, flags, f"{what}, which NaiveBayesModel ({kind}) does not take", "raise")


def _gaussian(columns: Columns, table: str, prior: Any, theta: Any, sigma: Any) -> str:
    scores = []
    for means, variances in zip(theta, sigma, strict=True):
        square = columns.add(ops.Function("square"), columns.add(ops.Arithmetic("subtract", means.copy()), table))
        scores.append(columns.add(ops.Reduce("sum"), columns.add(ops.Arithmetic("divide", variances.copy()), square)))
    far = columns.add(ops.Arithmetic("add", np.log(sigma).sum(axis=1)), columns.add(ops.Concatenate(), *scores))
    return columns.add(ops.Arithmetic("add", prior.copy()), columns.scaled(far, -0.5))


@stage("MultilayerPerceptronClassificationModel")
def lower_perceptron(model: Any, columns: Columns) -> None:
    """Lower layers of logistic units, and a softmax. Each layer's weights lie column after column, then its bias."""
    sizes, weights = list(model.getLayers()), model.weights.toArray()
    node, start = features_of(model, columns), 0
    for place, (rows, width) in enumerate(pairwise(sizes)):
        middle, end = start + rows * width, start + rows * width + width
        layer = ops.Linear(weights[start:middle].reshape(rows, width).copy(), weights[middle:end].copy())
        node, start = columns.add(layer, node), end
        if place < len(sizes) - 2:
            node = columns.add(ops.Sigmoid(), node)
    give_classes(model, columns, node, columns.add(ops.Softmax(), node))


@stage("MLPClassificationModel", library="vista_spark")
def lower_mlp(model: Any, columns: Columns) -> None:
    """Lower standardised inputs, linear layers with rectified units, and a softmax."""
    network, name = model.toTorch(), type(model).__name__
    node = columns.add(ops.Finite("float64", nan=False, who=name), features_of(model, columns))
    node = columns.add(ops.Arithmetic("subtract", network.mean.numpy().copy()), node)
    node = columns.add(ops.Arithmetic("divide", network.scale.numpy().copy()), node)
    for layer in network.layers:
        if hasattr(layer, "weight"):
            weights, bias = (part.detach().double().numpy() for part in (layer.weight, layer.bias))
            node = columns.add(ops.Linear(weights.T.copy(), bias.copy()), node)
        else:
            node = columns.add(ops.Function("relu"), node)
    give_classes(model, columns, node, columns.add(ops.Softmax(), node))


@stage("OneVsRestModel")
def lower_one_vs_rest(model: Any, columns: Columns) -> None:
    """Lower the models; the class whose model has the greatest raw prediction for it."""
    scores = []
    for binary in model.models:
        if not binary.getRawPredictionCol():
            raise refuse(model, "a model without rawPredictionCol")
        if binary.getFeaturesCol() != model.getFeaturesCol():
            raise refuse(model, f"a model of featuresCol={binary.getFeaturesCol()!r}")
        inner = columns.fork()
        lower_stage(binary, inner)
        raw = inner.added[binary.getRawPredictionCol()].node
        columns.nodes, columns.widths, columns.policy = inner.nodes, inner.widths, inner.policy
        columns.read, columns.vectors, columns.texts = inner.read, inner.vectors, inner.texts
        scores.append(columns.add(ops.Select(np.array([1])), raw))
    joined = columns.add(ops.Concatenate(), *scores)
    if model.isDefined("rawPredictionCol"):
        columns.add_column(model.getRawPredictionCol(), joined, role="decision_function")
    columns.add_column(
        model.getPredictionCol(), columns.add(ops.ArgMax("stays first"), joined), flat=True, role="predict"
    )
