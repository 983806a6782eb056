"""Registry of functions that lower operators of ONNX."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from vista_spark.compiling.onnx._graph import Graph, refuse

__all__ = ["lower_node", "operator"]

Lowering = Callable[[Graph, Any, list[Any], dict[str, Any]], Any]
"""Function of the graph, a node, its inputs and its attributes that returns the result, or a list of results."""

REASONS = {
    "CastMap": "it reads one map of integers",
    "If": "it chooses between two graphs",
    "Loop": "it repeats a graph",
    "Scan": "it repeats a graph, as skl2onnx does for neighbours without options={'optim': 'cdist'}",
    "SequenceConstruct": "it gives a list of tables of several outputs",
    "StringNormalizer": "it gives texts",
    "TfIdfVectorizer": "it counts words that other operators cut out of texts",
    "Tokenizer": "it gives words of texts",
}
"""Reasons of refusals, for the message."""

_OPERATORS: dict[str, Lowering] = {}


def operator(*names: str) -> Callable[[Lowering], Lowering]:
    """Register a function for operators; those of other domains than ONNX's own as ``"ai.onnx.ml.Scaler"``."""

    def enter(function: Lowering) -> Lowering:
        _OPERATORS.update(dict.fromkeys(names, function))
        return function

    return enter


def lower_node(graph: Graph, node: Any, inputs: list[Any], attributes: dict[str, Any]) -> Any:
    """Lower a node.

    Raises
    ------
    UnsupportedOperatorError
        The operator, or an option of it, cannot be compiled.
    """
    lowering = _OPERATORS.get(f"{node.domain}.{node.op_type}" if node.domain not in {"", "ai.onnx"} else node.op_type)
    if lowering is None:
        raise refuse(node, reason=REASONS.get(node.op_type, ""))
    return lowering(graph, node, inputs, attributes)
