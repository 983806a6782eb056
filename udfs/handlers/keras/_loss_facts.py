"""Losses of Keras: what each says about the task, and the end of a network."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import keras

from udfs.training import KERAS_LOSSES, Ending, LossFacts

__all__ = ["loss_facts", "network_ending"]

_ENDINGS: dict[str, Ending] = {
    "sigmoid": "sigmoid",
    "softmax": "softmax",
    "log_softmax": "log-softmax",
    "log_sigmoid": "log-sigmoid",
    "linear": "linear",
}
# Layers that only change shape or type.
_SHAPING = ("Reshape", "Flatten", "Permute", "Identity", "Dropout", "GetItem", "Squeeze", "ExpandDims", "Cast")


def loss_facts(loss: Any) -> LossFacts:
    """Return what a loss says: its name, a class, a function of Keras, or a partial of one."""
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
    from_logits = known.outputs == "probabilities" and keywords.get("from_logits", False)
    return replace(known, outputs="logits") if from_logits else known


def network_ending(model: Any) -> Ending:
    """Find the last operation of a sequential or functional model, through changes of shape."""
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
    operations: dict[str, Ending] = {
        "Sigmoid": "sigmoid",
        "Softmax": "softmax",
        "LogSoftmax": "log-softmax",
        "LogSigmoid": "log-sigmoid",
    }
    if name in operations:
        return operations[name]
    activation = getattr(layer, "activation", None)
    return _ENDINGS.get(getattr(activation, "__name__", ""), "unknown")
