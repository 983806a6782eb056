"""Shapes and FLOPs of a captured Keras model, without computing anything."""

from __future__ import annotations

import math
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import keras
import tensorflow as tf

from udfs.handlers._protocol import UntraceableModelError
from udfs.handlers.keras._effects import LOOPS, bodies, effects
from udfs.handlers.keras._modes import frozen_in_inference

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from udfs.handlers.keras._capture import Capture, Step
    from udfs.handlers.keras._effects import Effects
    from udfs.tensors import TensorSpec

__all__ = ["BATCHES", "Measure", "measure"]

BATCHES = (3, 5)
"""Two batch sizes tell the batch axis from any other: what follows the batch differs, what does not is the same."""


@dataclass(slots=True)
class Measure:
    """Predicted run on one batch size.

    Shapes and dtypes are by value, without values that are no tensors; an entry of a shape is ``None`` where it is not
    known before the run. FLOPs and effects are by step, of the whole batch; effects are empty unless the steps trained.
    ``masked`` are values with a mask, which Keras hands on beside the tensor.
    """

    shapes: dict[int, tuple[int | None, ...]] = field(default_factory=dict)
    dtypes: dict[int, str] = field(default_factory=dict)
    flops: list[int] = field(default_factory=list)
    effects: list[Effects] = field(default_factory=list)
    masked: set[int] = field(default_factory=set)


def measure(captured: Capture, inputs: Sequence[TensorSpec], batch: int, trained: Any = None) -> Measure:
    """Trace the steps on ``batch`` records into a TensorFlow graph, and read shapes and FLOPs off it.

    Counted are convolutions and products of matrices, as torch's counter does: a multiply-add is 2. With ``trained``,
    the captured model, the steps run as it trains, and their effects are found; by default they run in inference mode.
    Raise UntraceableModelError if they do not run on that many records.
    """
    result = Measure()
    training = trained is not None
    variables = trained.variables if training else []

    def whole(*tensors: Any) -> Any:
        graph = tf.compat.v1.get_default_graph()
        values: dict[int, Any] = dict(zip(captured.inputs, tensors, strict=True))
        for step in captured.steps:
            before = len(graph.get_operations())
            values.update(zip(step.writes, step(values, training=training), strict=True))
            operations = graph.get_operations()[before:]
            result.flops.append(_step_flops(step, values, operations))
            if training:
                result.effects.append(effects(step, graph, operations, variables))
        for index, value in values.items():
            if tf.is_tensor(value) and value.shape.rank is not None:
                result.shapes[index] = tuple(value.shape.as_list())
                result.dtypes[index] = value.dtype.name
                if getattr(value, "_keras_mask", None) is not None:
                    result.masked.add(index)
        return tensors

    signature = [tf.TensorSpec((batch, *spec.shape), spec.dtype) for spec in inputs]
    try:
        with frozen_in_inference(trained) if training else nullcontext():
            tf.function(whole, autograph=False).get_concrete_function(*signature)
    except Exception as error:
        reason = str(error).partition("\n")[0]
        described = ", ".join(f"{spec.shape} {spec.dtype}" for spec in inputs)
        raise UntraceableModelError(
            f"the model does not run on {batch} records of {described}: usual causes are a batch size fixed in the "
            "code (use -1 in one place of a reshape), a Python branch on values, and inputs of another shape than the "
            f"model takes ({type(error).__name__}: {reason})"
        ) from error
    return result


def _step_flops(step: Step, values: Mapping[int, Any], operations: Sequence[Any]) -> int:
    loops = [operation for operation in operations if operation.type in LOOPS]
    if loops and isinstance(step.operation, (keras.layers.RNN, keras.layers.Bidirectional)):
        # A turn a time step; beside the loop Keras runs the cell once for its shapes alone.
        turns = values[step.reads[0]].shape[1] or 1
        return int(turns) * sum(map(_flops, loops))
    return sum(map(_flops, operations))


def _flops(operation: Any) -> int:
    count = _COUNTS.get(operation.type)
    if count is not None:
        return 2 * count(operation)
    # Of a loop whose length is not known, one turn; of two branches, the costlier.
    return max((sum(map(_flops, graph.get_operations())) for graph in bodies(operation)), default=0)


def _size(tensor: Any) -> int:
    return _product_of(tensor.shape.as_list()) if tensor.shape.rank is not None else 1


def _product_of(extents: Sequence[int | None]) -> int:
    # What is not known before the run counts once; the batch is known.
    return math.prod(1 if extent is None else extent for extent in extents)


def _convolution(operation: Any) -> int:
    kernel = operation.inputs[1].shape.as_list()
    return _size(operation.outputs[0]) * _product_of(kernel[:-1])


def _depthwise(operation: Any) -> int:
    return _size(operation.outputs[0]) * _product_of(operation.inputs[1].shape.as_list()[:2])


def _transposed(operation: Any) -> int:
    *window, channels, _ = operation.inputs[1].shape.as_list()
    return _size(operation.inputs[2]) * _product_of(window) * int(channels)


def _product(operation: Any) -> int:
    left = operation.inputs[0].shape.as_list()
    turned = operation.get_attr("transpose_a" if operation.type == "MatMul" else "adj_x")
    return _size(operation.outputs[0]) * int(left[-2 if turned else -1] or 1)


def _einsum(operation: Any) -> int:
    left, _, result = operation.get_attr("equation").decode().partition("->")
    terms = left.split(",")
    if len(terms) == 1:
        return 0
    extents: dict[str, int] = {}
    rest = 1
    for term, tensor in zip(terms, operation.inputs, strict=True):
        shape = [extent or 1 for extent in tensor.shape.as_list()]
        before, dots, behind = term.strip().partition("...")
        shared = shape[len(before) : len(shape) - len(behind)] if dots else []
        rest = max(rest, math.prod(shared))
        named = before + behind
        sizes = shape[: len(before)] + (shape[len(shape) - len(behind) :] if dots else [])
        extents.update(zip(named, sizes, strict=True))
    summed = set(extents) - set(result)
    # Without a sum it is a product element by element, which is counted nowhere else.
    return rest * math.prod(extents.values()) if summed else 0


_COUNTS: dict[str, Callable[[Any], int]] = {
    "Conv2D": _convolution,
    "Conv3D": _convolution,
    "Conv": _convolution,
    "DepthwiseConv2dNative": _depthwise,
    "Conv2DBackpropInput": _transposed,
    "Conv3DBackpropInputV2": _transposed,
    "MatMul": _product,
    "BatchMatMul": _product,
    "BatchMatMulV2": _product,
    "BatchMatMulV3": _product,
    "Einsum": _einsum,
}
