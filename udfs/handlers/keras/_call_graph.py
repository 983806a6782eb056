"""Keras's own graph of symbolic calls: the order of its nodes, and what lies within a model or a layer of layers."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import keras

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["in_order", "inference", "is_functional", "is_numbered", "opened", "symbols_of", "unnumbered"]


def in_order(outputs: Sequence[Any], known: Mapping[int, int]) -> list[Any]:
    """List the nodes that lead to ``outputs``, each after those that it reads."""
    order: dict[int, Any] = {}
    ahead = [(_node(symbol), False) for symbol in reversed(outputs) if id(symbol) not in known]
    while ahead:
        node, read = ahead.pop()
        if id(node) in order:
            continue
        if read:
            order[id(node)] = node
            continue
        ahead.append((node, True))
        before = [symbol for symbol in node.arguments.keras_tensors if id(symbol) not in known]
        ahead.extend((_node(symbol), False) for symbol in reversed(before))
    return list(order.values())


def _node(symbol: Any) -> Any:
    operation, index, _ = symbol._keras_history  # Keras has no public way along its graph
    return operation._inbound_nodes[index]


def opened(node: Any, *, composite: bool = True) -> tuple[list[Any], list[Any]] | None:
    """Find the symbolic inputs and outputs within the operation of a node, or None where it stays whole.

    Layers of the user's own that are made of layers are opened if ``composite``.
    """
    operation, symbols = node.operation, node.arguments.keras_tensors
    if is_functional(operation):
        inputs, outputs = list(operation.inputs), list(operation.outputs)
        # A functional model adapts ranks and types of what it is given; such a call stays whole.
        same = len(inputs) == len(symbols) and all(
            (len(inner.shape), inner.dtype) == (len(outer.shape), outer.dtype)
            for inner, outer in zip(inputs, symbols, strict=False)
        )
        return (inputs, outputs) if same and len(outputs) == len(node.outputs) else None
    if not composite or not _is_composite(operation) or any(symbol.shape[:1] != (None,) for symbol in symbols):
        return None
    fresh = {id(symbol): keras.Input(symbol.shape[1:], dtype=symbol.dtype) for symbol in symbols}

    def renewed(argument: Any) -> Any:
        return fresh.get(id(argument), argument)

    args, kwargs = keras.tree.map_structure(renewed, (node.arguments.args, node.arguments.kwargs))
    try:
        outputs = symbols_of(operation.call(*args, **{**kwargs, **inference(operation)}))
        in_order(outputs, dict.fromkeys(map(id, fresh.values()), 0))
    except Exception:  # noqa: BLE001 - the user's own Python may raise anything; the layer runs as it is
        return None
    same = len(outputs) == len(node.outputs) and all(
        (inner.shape, inner.dtype) == (outer.shape, outer.dtype)
        for inner, outer in zip(outputs, node.outputs, strict=False)
    )
    return ([fresh[id(symbol)] for symbol in symbols], outputs) if same else None


def is_functional(operation: Any) -> bool:
    """Return whether its ``call`` is Keras's own run through a graph; the class itself is no public name."""
    is_subclass = isinstance(operation, keras.Sequential) or type(operation).__name__ == "Functional"
    if not is_subclass and isinstance(operation, keras.Model):
        is_subclass = any(
            base.__name__ == "Functional" and base.__module__.startswith("keras.") for base in type(operation).__mro__
        )
    call = getattr(type(operation), "call", None)
    return (
        is_subclass
        and str(getattr(call, "__module__", "")).startswith("keras.")
        and bool(getattr(operation, "inputs", None))
    )


def _is_composite(operation: Any) -> bool:
    """Return whether it is a layer of the user's own that is made of layers, in the types that it was given."""
    return (
        isinstance(operation, keras.Layer)
        and not type(operation).__module__.startswith("keras.")
        and next(iter(operation._flatten_layers(include_self=False)), None) is not None
        and operation.compute_dtype == operation.variable_dtype
    )


def inference(operation: Any) -> dict[str, bool]:
    """Return the argument that asks an operation for inference, where it takes one."""
    return {"training": False} if getattr(operation, "_call_has_training_arg", False) else {}


def symbols_of(returned: Any) -> list[Any]:
    """Flatten what a symbolic call returned; a TypeError where it is anything but tensors."""
    flat = keras.tree.flatten(returned)
    if not flat or not all(isinstance(symbol, keras.KerasTensor) for symbol in flat):
        raise TypeError(f"it returns {', '.join(type(entry).__name__ for entry in flat) or 'nothing'}, not tensors")
    return list(flat)


def unnumbered(operation: Any) -> str:
    """Name a layer without the number that Keras gave it, by all that the process ever made; a user's name stays.

    Examples
    --------
    >>> [unnumbered(layer) for layer in (keras.layers.Dense(2), keras.layers.Dense(2), keras.layers.ReLU(name="a"))]
    ['dense', 'dense', 'a']
    """
    return _automatic(operation) if is_numbered(operation) else str(operation.name)


def is_numbered(operation: Any) -> bool:
    """Return whether its name is the one that Keras gives, with or without a number."""
    return re.fullmatch(rf"{re.escape(_automatic(operation))}(_\d+)?", str(operation.name)) is not None


def _automatic(operation: Any) -> str:
    kind = re.sub(r"(.)([A-Z][a-z]+)", r"\1_\2", type(operation).__name__)
    return re.sub(r"([a-z])([A-Z])", r"\1_\2", kind).lower()
