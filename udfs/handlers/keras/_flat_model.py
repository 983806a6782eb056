"""A model of the user's own classes as a functional model of Keras's layers: equal numbers, none of the user's code."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import keras

from udfs.handlers._protocol import UntraceableModelError
from udfs.handlers.keras._capture import Ref, capture
from udfs.handlers.keras._names import value_names

if TYPE_CHECKING:
    from collections.abc import Sequence

    from udfs.handlers.keras._capture import Capture, Step
    from udfs.tensors import TensorSpec

__all__ = ["flattened", "own_classes"]


def own_classes(model: Any) -> dict[str, type]:
    """Find the classes of a model's layers that are not Keras's, by name."""
    layers = [model, *model._flatten_layers(include_self=False)]
    classes = {type(layer) for layer in layers if not type(layer).__module__.startswith("keras.")}
    return {made.__name__: made for made in sorted(classes, key=lambda made: made.__qualname__)}


def flattened(model: Any, inputs: Sequence[TensorSpec]) -> tuple[Any, dict[str, str]]:
    """Build a functional model of the operations that a model runs at inference.

    The model is left as it is: layers are made anew from their configurations, and get its weights. Return also, for
    each path of the model's layers, the name of the value in the functional model's graph, in run order. Raise
    UntraceableModelError if a class of the user's has a ``call`` that does not take symbols.
    """
    captured = capture(model, inputs)
    whole = sorted({type(step.operation).__name__ for step in captured.steps if _is_own(step)})
    if whole:
        raise UntraceableModelError(
            f"{model.name} needs its author's code: {', '.join(whole)} cannot be opened into layers of Keras. Write "
            "call with keras.layers and keras.ops, and no tf.* functions"
        )
    symbols = captured.symbols
    values: dict[int, Any] = {
        index: keras.Input(symbols[index].shape[1:], dtype=symbols[index].dtype) for index in captured.inputs
    }
    fresh = [values[index] for index in captured.inputs]
    layers: dict[int, Any] = {}
    for step in captured.steps:
        operation = layers.setdefault(id(step.operation), _anew(step, len(layers)))
        args, kwargs = keras.tree.map_structure(
            lambda value: values[value.index] if isinstance(value, Ref) else value, (step.args, step.kwargs)
        )
        values.update(zip(step.writes, keras.tree.flatten(operation(*args, **kwargs)), strict=True))
        if isinstance(operation, keras.Layer) and operation.weights:
            operation.set_weights(step.operation.get_weights())
    flat = keras.Model(fresh if len(fresh) > 1 else fresh[0], _outputs(captured, values), name=model.name)
    again = capture(flat, inputs)
    names = dict(zip(map(id, again.symbols), value_names(again), strict=True))
    return flat, {
        path: names[id(values[index])] for path, index in captured.returned.items() if id(values[index]) in names
    }


def _is_own(step: Step) -> bool:
    return isinstance(step.operation, keras.Layer) and not type(step.operation).__module__.startswith("keras.")


def _anew(step: Step, number: int) -> Any:
    """Make an operation anew: a layer under a name that no other one of the model has."""
    operation = step.operation
    if isinstance(operation, keras.Layer):
        config = operation.get_config() | {"name": f"{step.path.replace('/', '.')}.{number}"}
        return type(operation).from_config(config)
    made = copy.copy(operation)
    made._inbound_nodes, made._outbound_nodes = [], []  # a copy's own, as of one that was just made
    return made


def _outputs(captured: Capture, values: dict[int, Any]) -> Any:
    if captured.keys and all(isinstance(key, str) for key in captured.keys):
        return {key: values[index] for key, index in captured.keys.items()}
    listed = [values[index] for index in captured.outputs]
    return listed if captured.keys else listed[0]
