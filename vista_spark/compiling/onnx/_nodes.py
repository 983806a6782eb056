"""Which function lowers which operator of ONNX."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from vista_spark.compiling.onnx._graph import Graph, refuse

__all__ = ["REASONS", "Lowering", "lower_node", "lowered_operators", "operator"]

Lowering = Callable[[Graph, Any, list[Any], dict[str, Any]], Any]
"""From the graph, a node, its inputs and its attributes, to its result, or a list of them."""

REASONS = {
    "CastMap": "takes one map of whole numbers, and gives as many columns as that has: no translation",
    "If": "chooses between two graphs: no translation",
    "Loop": "repeats a graph: no translation",
    "Scan": "repeats a graph, as for distances row by row: no translation",
    "SequenceConstruct": "gives a list of tables of several outputs: no translation",
    "StringNormalizer": "gives texts: no translation",
    "TfIdfVectorizer": "counts words that other operators cut out of texts: no translation",
    "Tokenizer": "gives words of texts: no translation",
}
"""Why an operator has no translation, for the message."""

_OPERATORS: dict[str, Lowering] = {}


def operator(*names: str) -> Callable[[Lowering], Lowering]:
    """Register a function for operators; those of other domains than ONNX's own as ``"ai.onnx.ml.Scaler"``."""

    def enter(function: Lowering) -> Lowering:
        _OPERATORS.update(dict.fromkeys(names, function))
        return function

    return enter


def lower_node(graph: Graph, node: Any, given: list[Any], attributes: dict[str, Any]) -> Any:
    """Lower a node.

    Raises
    ------
    UnsupportedOperatorError
        The operator, or an option of it, has no translation.
    """
    found = _OPERATORS.get(f"{node.domain}.{node.op_type}" if node.domain not in {"", "ai.onnx"} else node.op_type)
    if found is None:
        raise refuse(node, REASONS.get(node.op_type, "has no translation"))
    return found(graph, node, given, attributes)


def lowered_operators() -> list[str]:
    """Name the operators that have a translation."""
    return sorted(_OPERATORS)
