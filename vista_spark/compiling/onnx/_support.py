"""ONNX-ML's support vector machines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from optimizer.compiling import (
    Above,
    Arithmetic,
    Cast,
    Clip,
    Compare,
    Coupling,
    Distances,
    Function,
    Linear,
    OrderedSum,
    Power,
    Recode,
    Sigmoid,
    Votes,
)
from vista_spark.compiling.onnx._graph import Table, refuse
from vista_spark.compiling.onnx._linear import both, class_of, labels_of, transformed
from vista_spark.compiling.onnx._nodes import operator

if TYPE_CHECKING:
    from vista_spark.compiling.onnx._graph import Graph

__all__ = ["lower_classifier", "lower_regressor"]


@operator("ai.onnx.ml.SVMRegressor")
def lower_regressor(graph: Graph, node: Any, given: list[Any], attributes: dict[str, Any]) -> Table:
    """Lower the regressor: a weighted sum of kernels; or the detector of outliers, by the sum's sign."""
    table = graph.cast(graph.table(node, given[0]), "float32")
    weights = np.asarray(attributes["coefficients"], np.float32)
    rho = np.asarray(attributes.get("rho", [0.0]), np.float32)[:1]
    count = int(attributes.get("n_supports", 0))
    if count:
        vectors = np.asarray(attributes["support_vectors"], np.float32).reshape(count, -1)
        table = _kernel(graph, node, table, vectors, attributes)
    elif attributes.get("kernel_type", "LINEAR") != "LINEAR":
        raise refuse(node, f"kernel_type={attributes['kernel_type']} without support vectors")
    score = graph.add(Linear(weights[:, None].copy(), rho.copy()), table, shape=(1,))
    if attributes.get("one_class"):
        above = graph.cast(graph.add(Above(0.0, or_equal=False), score), "float32")
        doubled = graph.add(Arithmetic("multiply", np.full(1, 2, np.float32)), above)
        return graph.add(Arithmetic("subtract", np.ones(1, np.float32)), doubled)
    return transformed(graph, node, score, attributes.get("post_transform", "NONE"))


@operator("ai.onnx.ml.SVMClassifier")
def lower_classifier(graph: Graph, node: Any, given: list[Any], attributes: dict[str, Any]) -> list[Table]:
    """Lower the classifier: a score for each pair of classes, which vote; probabilities are coupled as libsvm does."""
    table = graph.cast(graph.table(node, given[0]), "float32")
    labels, post = labels_of(node, attributes), attributes.get("post_transform", "NONE")
    counts, classes = attributes.get("vectors_per_class"), len(labels)
    if not counts or classes < 2:  # a pair
        raise refuse(node, f"{classes} classes without support vectors, which is a linear model: LinearClassifier")
    if post != "NONE":
        raise refuse(node, f"post_transform={post}")
    vectors = np.asarray(attributes["support_vectors"], np.float32).reshape(sum(counts), -1)
    sums = _pairs(graph, _kernel(graph, node, table, vectors, attributes), counts, attributes)
    pairs = [(one, other) for one in range(classes) for other in range(one + 1, classes)]
    won = graph.build.add(Cast("int64"), graph.add(Compare(0.0), sums).node)
    named = graph.build.add(
        Recode(np.array([[place] for one, other in pairs for place in (other, one)]), np.full(len(pairs), 2)), won
    )
    votes = graph.build.add(Votes(np.ones(len(pairs)), np.zeros(len(pairs)), classes), named)
    best = class_of(graph, node, Table(votes, (classes,), "float64"), labels)
    scores = graph.cast(sums, "float32")
    if not attributes.get("prob_a"):
        return [best, scores if classes > 2 else both(graph, scores, complement=False)]
    for name, kind in (("prob_a", "multiply"), ("prob_b", "add")):
        scores = graph.add(Arithmetic(kind, np.asarray(attributes[name], np.float32)), scores)
    shares = graph.add(Sigmoid(), scores)
    less = graph.add(Arithmetic("multiply", np.full(len(pairs), -1, np.float32)), shares)
    rest = graph.add(Arithmetic("add", np.ones(len(pairs), np.float32)), less)
    held = graph.add(Clip(float(np.float32(1e-7)), float(1 - np.float32(1e-7))), rest)
    return [best, graph.add(Coupling(classes), held, shape=(classes,))]


def _pairs(graph: Graph, kernel: Table, counts: list[int], attributes: dict[str, Any]) -> Table:
    """Give the score of each pair of classes: products of float32, added as float64."""
    starts, total = np.cumsum([0, *counts]), sum(counts)
    weights = np.asarray(attributes["coefficients"], np.float32).reshape(-1, total)
    columns, factors, ends = [], [], [0]
    for one in range(len(counts)):
        for other in range(one + 1, len(counts)):
            for row, group in ((other - 1, one), (one, other)):
                own = np.arange(starts[group], starts[group + 1])
                columns.append(own)
                factors.append(weights[row, own])
            ends.append(ends[-1] + counts[one] + counts[other])
    places = np.concatenate(columns)
    terms = graph.add(Arithmetic("multiply", np.concatenate(factors)), graph.take(kernel, places))
    bias = np.asarray(attributes["rho"], np.float32)[: len(ends) - 1].astype(np.float64)
    add = OrderedSum(np.arange(len(places)), np.array(ends), np.ones(len(places)), bias)
    return graph.add(add, graph.cast(terms, "float64"), shape=(len(bias),))


def _kernel(graph: Graph, node: Any, table: Table, vectors: Any, attributes: dict[str, Any]) -> Table:
    """Give the kernel of each row with each support vector."""
    kind, count = attributes.get("kernel_type", "LINEAR"), len(vectors)
    gamma, shift, degree = (np.float32(one) for one in (attributes.get("kernel_params") or [0.0, 0.0, 0.0]))

    def each(name: str, number: Any, kernel: Table) -> Table:
        return graph.add(Arithmetic(name, np.full(count, number, np.float32)), kernel)

    if kind == "RBF":
        far = graph.add(Distances(vectors, "sqeuclidean"), table, shape=(count,))
        return graph.add(Function("exp"), each("multiply", -gamma, far))
    product = graph.add(Linear(vectors.T.copy(), np.zeros(count, np.float32)), table, shape=(count,))
    if kind == "LINEAR":
        return product
    product = each("add", shift, each("multiply", gamma, product))
    if kind == "SIGMOID":
        return graph.add(Function("tanh"), product)
    if kind == "POLY":
        return graph.add(Power(float(degree)), product)
    raise refuse(node, f"kernel_type={kind}")
