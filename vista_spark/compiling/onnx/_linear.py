"""Linear models of ONNX-ML, and outputs of classifiers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

import optimizer.compiling as ops
from vista_spark.compiling.onnx._graph import Table, refuse
from vista_spark.compiling.onnx._nodes import operator
from vista_spark.compiling.onnx._shapes import lookup

if TYPE_CHECKING:
    from vista_spark.compiling.onnx._graph import Graph

__all__ = ["both", "class_above", "class_of", "labels_of", "transformed"]


def transformed(graph: Graph, node: Any, scores: Table, name: str) -> Table:
    """Apply a ``post_transform``."""
    if name == "NONE":
        return scores
    if name == "LOGISTIC":
        return graph.add(ops.Sigmoid(), scores)
    if name == "SOFTMAX":
        return graph.add(ops.Softmax(), scores)
    raise refuse(node, f"post_transform={name}")


def labels_of(node: Any, attributes: dict[str, Any]) -> np.ndarray[Any, Any]:
    """Return the names of the classes, integers or texts."""
    for name in ("classlabels_strings", "classlabels_int64s", "classlabels_ints"):
        if attributes.get(name):
            return np.array(attributes[name])
    raise refuse(node, "unnamed classes")


def class_of(graph: Graph, node: Any, scores: Table, labels: np.ndarray[Any, Any]) -> Table:
    """Return the class with the greatest score."""
    place = graph.cast(graph.add(ops.ArgMax("stays first"), scores), "float64")
    return lookup(graph, node, labels, Table(place.node, (), "int64"))


def class_above(graph: Graph, node: Any, score: Table, limit: float, labels: np.ndarray[Any, Any]) -> Table:
    """Return the second class for scores above a limit, else the first."""
    place = graph.cast(graph.add(ops.Above(limit, or_equal=False), score), "float64")
    return lookup(graph, node, labels, Table(place.node, (), "int64"))


def both(graph: Graph, score: Table, *, complement: bool) -> Table:
    """Return two columns: one minus the score, or minus the score, and the score."""
    other = graph.add(ops.Arithmetic("multiply", np.full(1, -1, np.float32)), score)
    if complement:
        other = graph.add(ops.Arithmetic("add", np.ones(1, np.float32)), other)
    return graph.add(ops.Concatenate(), other, score, shape=(2,))


def _scores(graph: Graph, node: Any, inputs: list[Any], attributes: dict[str, Any], count: int) -> Table:
    table = graph.cast(graph.table(node, inputs[0]), "float32")
    weights = np.asarray(attributes["coefficients"], np.float32)
    if len(table.shape) != 1 or len(weights) != count * table.width:
        raise refuse(node, f"{len(weights)} coefficients of {count} results, for rows of shape {table.shape}")
    bias = np.asarray(attributes.get("intercepts") or np.zeros(count), np.float32)
    return graph.add(ops.Linear(weights.reshape(count, -1).T.copy(), bias), table, shape=(count,))


@operator("ai.onnx.ml.LinearRegressor")
def lower_regressor(graph: Graph, node: Any, inputs: list[Any], attributes: dict[str, Any]) -> Table:
    """Lower linear regression."""
    scores = _scores(graph, node, inputs, attributes, int(attributes.get("targets", 1)))
    return transformed(graph, node, scores, attributes.get("post_transform", "NONE"))


@operator("ai.onnx.ml.LinearClassifier")
def lower_classifier(graph: Graph, node: Any, inputs: list[Any], attributes: dict[str, Any]) -> list[Table]:
    """Lower a linear classifier: the class of the greatest score, and the scores, transformed."""
    labels, post = labels_of(node, attributes), attributes.get("post_transform", "NONE")
    count = len(attributes.get("intercepts") or labels)
    scores = _scores(graph, node, inputs, attributes, count)
    if count > 1:
        if count != len(labels):
            raise refuse(node, f"{count} scores and {len(labels)} classes")
        return [class_of(graph, node, scores, labels), transformed(graph, node, scores, post)]
    if len(labels) != 2 or post not in {"NONE", "LOGISTIC"}:  # of one score
        raise refuse(node, f"one score, {len(labels)} classes and post_transform={post}")
    pair = both(graph, transformed(graph, node, scores, post), complement=True)
    return [class_above(graph, node, scores, 0.0, labels), pair]
