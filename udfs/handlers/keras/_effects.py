"""Side effects of the steps of a Keras model in training: random numbers, variables that change, memory."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import keras
import tensorflow as tf

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from udfs.handlers.keras._capture import Step

__all__ = ["LOOPS", "Effects", "bodies", "effects"]

LOOPS = ("While", "StatelessWhile")
"""TensorFlow's loops."""

# Attributes that name the functions that an operation calls.
_BODIES = {
    **dict.fromkeys(("PartitionedCall", "StatefulPartitionedCall"), ("f",)),
    **dict.fromkeys(LOOPS, ("body",)),
    **dict.fromkeys(("If", "StatelessIf"), ("then_branch", "else_branch")),
}
_DRAWS = re.compile("Random|Multinomial|TruncatedNormal")
_CHANGES = re.compile("Assign.*VariableOp|ResourceScatter")

# They give the memory of what they read.
_VIEWS = frozenset({"Identity", "IdentityN", "Reshape", "Squeeze", "ExpandDims", "ReadVariableOp", "StopGradient"})


@dataclass(frozen=True, slots=True)
class Effects:
    """Side effects of a step.

    ``draws`` tells that it takes random numbers, and ``adds_loss`` that it adds to the loss, as an activity regularizer
    does. ``moves`` has the ids of the variables that it changes, as batch norm its statistics and dropout the state of
    its seed; 0 for one that the model does not hold. ``made_bytes`` are those of the tensors that it makes, of the
    whole batch.
    """

    draws: bool
    moves: frozenset[int]
    adds_loss: bool
    made_bytes: int


def effects(step: Step, graph: Any, operations: Sequence[Any], variables: Sequence[Any]) -> Effects:
    """Read the effects of a step off the operations that it has just put into a graph."""
    ids = {id(variable.value.handle): id(variable) for variable in variables}
    handles = {id(inside): ids.get(id(outside), 0) for outside, inside in graph.captures}
    moves = {handles.get(id(operation.inputs[0]), 0) for operation in operations if _CHANGES.fullmatch(operation.type)}
    inside = [inner for operation in operations for inner in _inside(operation)]
    layer = step.operation if isinstance(step.operation, keras.Layer) else None
    if layer is not None and any(_CHANGES.fullmatch(operation.type) for operation in inside):
        # A loop hands its variables on under other names.
        learn = {id(variable) for variable in layer.trainable_variables}
        moves.update(id(variable) for variable in layer.variables if id(variable) not in learn)
    return Effects(
        any(_DRAWS.search(operation.type) for operation in (*operations, *inside)),
        frozenset(moves),
        layer is not None and _adds_loss(layer),
        sum(_made(operation) for operation in operations),
    )


def bodies(operation: Any) -> Iterator[Any]:
    """Yield the graphs that an operation runs: of a function, of a loop's turn, of both branches."""
    for attribute in _BODIES.get(operation.type, ()):
        name = operation.get_attr(attribute).name
        function = operation.graph._get_function(name)  # TensorFlow has no public way to a function's graph
        graph = getattr(function, "graph", None)
        if graph is not None:
            yield graph


def _inside(operation: Any) -> Iterator[Any]:
    for graph in bodies(operation):
        for inner in graph.get_operations():
            yield inner
            yield from _inside(inner)


def _adds_loss(layer: Any) -> bool:
    """Return whether a call has just added to the loss; what it added is of a graph that goes, so it is forgotten."""
    added = any(inner._get_own_losses() for inner in layer._flatten_layers())
    layer._clear_losses()
    return added


def _made(operation: Any) -> int:
    if operation.type in _VIEWS:
        return 0
    return sum(map(_bytes, operation.outputs))


def _bytes(tensor: Any) -> int:
    extents = tensor.shape.as_list() if tensor.shape.rank is not None else [None]
    if None in extents or tensor.dtype in (tf.variant, tf.resource, tf.string):
        return 0
    return math.prod(extents) * int(tensor.dtype.size)
