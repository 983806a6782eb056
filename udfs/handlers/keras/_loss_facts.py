"""Losses of Keras: their properties that decide the task, the labels that they take, and the end of a network."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import keras
import numpy as np

from udfs.handlers._random import apply_random, take_random
from udfs.training import KERAS_LOSSES, Ending, LossFacts

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["is_users_class", "loss_facts", "needs_columns", "network_ending", "unused_inputs"]

# By the names of activations, and of operations of a functional model.
_ENDINGS: dict[str, Ending] = {
    "sigmoid": "sigmoid",
    "softmax": "softmax",
    "log_softmax": "log-softmax",
    "log_sigmoid": "log-sigmoid",
    "linear": "linear",
}
_OPERATIONS: dict[str, Ending] = {
    "Sigmoid": "sigmoid",
    "Softmax": "softmax",
    "LogSoftmax": "log-softmax",
    "LogSigmoid": "log-sigmoid",
}
# Rows of a trial of a loss.
_ROWS = 5

# Layers that only change shape or type.
_SHAPING = ("Reshape", "Flatten", "Permute", "Identity", "Dropout", "GetItem", "Squeeze", "ExpandDims", "Cast")


def loss_facts(loss: Any) -> LossFacts:
    """Return the properties of a loss: its name, a class, a function of Keras, or a partial of one."""
    function = keras.losses.get(loss) if isinstance(loss, (str, dict)) else loss
    keywords: dict[str, Any] = {}
    while isinstance(function, partial):
        keywords = dict(function.keywords) | keywords
        function = function.func
    wrapped = getattr(function, "fn", function)
    if isinstance(function, keras.losses.Loss):
        keywords = keywords | function.get_config()
    name = getattr(wrapped, "__name__", type(wrapped).__name__)
    # Another library's function of the same name may mean something else.
    known = KERAS_LOSSES.get(name) if getattr(keras.losses, name, None) is wrapped else None
    if known is None:
        return LossFacts(str(name))
    known = replace(known, ignored=keywords.get("ignore_class"))
    from_logits = known.outputs == "probabilities" and keywords.get("from_logits", False)
    return replace(known, outputs="logits") if from_logits else known


def network_ending(model: Any) -> Ending:
    """Return the last operation of a sequential or functional model that does not only change shape or type."""
    try:
        tensor = model.outputs[0]
        layer = tensor._keras_history.operation
    except (AttributeError, IndexError, TypeError, ValueError):
        return "unknown"
    while type(layer).__name__ in _SHAPING:
        tensors = list(layer._inbound_nodes[-1].input_tensors)
        if not tensors:
            return "unknown"
        layer = tensors[0]._keras_history.operation
    if isinstance(layer, keras.Model):
        return network_ending(layer)
    if isinstance(layer, keras.layers.Softmax):
        return "softmax"
    name = type(layer).__name__
    if name in _OPERATIONS:
        return _OPERATIONS[name]
    activation = getattr(layer, "activation", None)
    return _ENDINGS.get(getattr(activation, "__name__", ""), "unknown")


def unused_inputs(model: Any) -> tuple[int, ...]:
    """List the places of the inputs that no layer of a functional model reads."""
    layers = getattr(model, "_operations", None)
    if layers is None:
        return ()
    nodes = [node for layer in layers for node in layer._inbound_nodes]
    read = {id(tensor) for node in nodes for tensor in node.input_tensors}
    return tuple(place for place, tensor in enumerate(model.inputs) if id(tensor) not in read)


def is_users_class(loss: Any) -> bool:
    """Return whether a loss is an object of a class with a ``call`` of its own, instead of a function of Keras."""
    return isinstance(loss, keras.losses.Loss) and not hasattr(loss, "fn")


def needs_columns(loss: Any, label: NDArray[Any], output: tuple[int, ...]) -> bool:
    """Return whether a user's class of losses has to get the labels of single outputs as a column.

    Keras fits the ranks of labels and outputs for functions only: a class that subtracts labels of shape ``(rows,)``
    from outputs of shape ``(rows, 1)`` compares each output with the labels of all rows. The loss of some rows then
    differs from the mean of the losses of each row.
    """
    if not is_users_class(loss) or len(output) != label.ndim + 1 or output[-1] != 1:
        return False
    numbers = np.random.default_rng(0).uniform(0.1, 0.9, (_ROWS, *output[1:])).astype(np.float32)
    known = label[np.arange(_ROWS) % len(label)].astype(np.float32)
    before = take_random()
    try:
        plain, column = _mean(loss, known, numbers), _mean(loss, known[..., None], numbers)
        each = np.mean([_mean(loss, known[[row]], numbers[[row]]) for row in range(_ROWS)])
    except Exception:  # noqa: BLE001 - training raises the error of the user's loss again
        return False
    finally:
        apply_random(before)
    return not np.isclose(plain, column, rtol=1e-4) and bool(np.isclose(column, each, rtol=1e-4))


def _mean(loss: Any, label: NDArray[Any], output: NDArray[Any]) -> float:
    value = loss.call(keras.ops.convert_to_tensor(label), keras.ops.convert_to_tensor(output))
    return float(np.mean(keras.ops.convert_to_numpy(value)))
