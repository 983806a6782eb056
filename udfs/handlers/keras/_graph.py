"""Layer graph of a Keras model: shapes, FLOPs and bytes of its steps."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import keras
import tensorflow as tf

from optimizer.graph import Layer, LayerGraph
from udfs.handlers._protocol import UntraceableModelError
from udfs.handlers.keras._fingerprint import fingerprint
from udfs.handlers.keras._measure import BATCHES
from udfs.handlers.keras._names import operation, value_names
from udfs.handlers.keras._window import window

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from udfs.handlers.keras._capture import Capture, Step
    from udfs.handlers.keras._measure import Measure

__all__ = ["layer_graph"]


def layer_graph(captured: Capture, measures: Sequence[Measure], learning: Collection[int] | None = None) -> LayerGraph:
    """Describe a captured model.

    A value is a layer if it is a tensor with the batch as its leading axis: only such a value can be cut into records,
    stored and fed again. Any other value is folded into the layers that consume it, each of which has its costs; so is
    a step of several values, whose costs each of them has. Weights that several layers read count for each. There is a
    measure for each batch size of :data:`BATCHES`. With ``learning``, the ids of the variables that learn, the measures
    are those of training; by default variables say it. Raise UntraceableModelError if the model returns no tensor with
    the batch as its leading axis.
    """
    small, large = measures
    names = value_names(captured)
    shapes = {index: _record_shape(index, small, large) for index in range(len(names))}
    layers = [
        Layer(names[index], "input", output_shape=shapes[index] or (), dtype=small.dtypes[index])
        for index in captured.inputs
    ]
    maker = {index: i for i, step in enumerate(captured.steps) for index in step.writes}
    sources: dict[int, tuple[int, ...]] = {index: (index,) for index in captured.inputs}
    for i, step in enumerate(captured.steps):
        read = tuple(dict.fromkeys(source for index in step.reads for source in sources[index]))
        for place, index in enumerate(step.writes):
            shape = shapes[index]
            if shape is None:
                sources[index] = read
                continue
            sources[index] = (index,)
            folded = list(_folded(i, captured, maker, sources))
            steps = [captured.steps[number] for number in folded]
            weights = _weights(steps)
            effects = [small.effects[number] for number in folded] if small.effects else []
            moved = frozenset[int]().union(*(effect.moves for effect in effects))
            layers.append(
                Layer(
                    name=names[index],
                    op=operation(step),
                    inputs=tuple(names[source] for source in read),
                    output_shape=shape,
                    dtype=small.dtypes[index],
                    flops=sum(small.flops[number] for number in folded) // BATCHES[0],
                    param_bytes=sum(_bytes(variable) for variable in weights),
                    frozen=not any(_learns(variable, learning) or id(variable) in moved for variable in weights),
                    random=any(effect.draws for effect in effects),
                    inner_bytes=_inner_bytes(folded, index, small, large),
                    fingerprint=fingerprint(steps, place, _known(steps, read), weights),
                    window=window(step.operation, small.shapes.get(step.reads[0], ())) if step.reads else None,
                )
            )
    returned = [names[index] for index in captured.outputs if sources[index] == (index,)]
    if not returned:
        raise UntraceableModelError(
            "the model returns no tensor whose leading axis is the batch: return one with an entry for each record"
        )
    return LayerGraph(layers, tuple(dict.fromkeys(returned)))


def _record_shape(index: int, small: Measure, large: Measure) -> tuple[int, ...] | None:
    first, other = small.shapes.get(index), large.shapes.get(index)
    if not first or not other or (first[0], other[0]) != BATCHES or first[1:] != other[1:]:
        return None
    known = tuple(extent for extent in first[1:] if extent is not None)
    return known if len(known) == len(first) - 1 else None


def _folded(
    last: int, captured: Capture, maker: Mapping[int, int], sources: Mapping[int, tuple[int, ...]]
) -> Iterator[int]:
    """Yield the number of a layer's step after those of the folded steps that it needs."""
    seen: set[int] = set()

    def visit(number: int) -> Iterator[int]:
        if number in seen:
            return
        seen.add(number)
        for index in captured.steps[number].reads:
            if sources[index] != (index,):
                yield from visit(maker[index])
        yield number

    yield from visit(last)


def _known(steps: Sequence[Step], read: Sequence[int]) -> dict[int, str]:
    within = {index: f"step {i} value {j}" for i, step in enumerate(steps) for j, index in enumerate(step.writes)}
    return {**within, **{index: f"input {i}" for i, index in enumerate(read)}}


def _weights(steps: Sequence[Step]) -> list[Any]:
    variables: dict[int, Any] = {}
    for step in steps:
        if isinstance(step.operation, keras.Layer):
            variables.update({id(variable): variable for variable in step.operation.weights})
        direct = [entry for entry in keras.tree.flatten((step.args, step.kwargs)) if isinstance(entry, keras.Variable)]
        variables.update({id(variable): variable for variable in direct})
    return list(variables.values())


def _learns(variable: Any, learning: Collection[int] | None) -> bool:
    return bool(variable.trainable) if learning is None else id(variable) in learning


def _inner_bytes(steps: Sequence[int], index: int, small: Measure, large: Measure) -> int:
    """Count what grows with the batch, for one record."""
    size = math.prod(extent or 1 for extent in small.shapes[index][1:]) * tf.as_dtype(small.dtypes[index]).size
    if not small.effects:
        return int(size)
    made = [sum(measured.effects[number].made_bytes for number in steps) for measured in (small, large)]
    return max(int(size), (made[1] - made[0]) // (BATCHES[1] - BATCHES[0]))


def _bytes(variable: Any) -> int:
    return int(math.prod(variable.shape) * tf.as_dtype(variable.dtype).size)
