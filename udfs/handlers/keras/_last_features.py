"""Features of a Keras archive: the tensor that its last layer with weights reads."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import keras
import numpy as np

from udfs.handlers._protocol import UntraceableModelError
from udfs.handlers.keras._archive import load_archive

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from udfs.handlers._framework import Exported

__all__ = ["last_layer", "open_features"]


def open_features(data: bytes) -> Exported:
    """Open a ``.keras`` archive as a function that returns the features, of shape ``(rows, channels)``.

    Axes of places, such as those of pixels or tokens, are averaged.
    """
    with tempfile.TemporaryDirectory() as folder:
        model = load_archive(Path(folder) / "network.keras", data)
    layer, features = last_layer(model)
    part = keras.Model(model.inputs, features)
    channels_first = getattr(layer, "data_format", None) == "channels_first"

    def run(inputs: Sequence[NDArray[Any]]) -> tuple[NDArray[np.float32], ...]:
        tensor = np.asarray(part.predict_on_batch(inputs[0] if len(inputs) == 1 else list(inputs)), np.float32)
        places = tuple(range(2, tensor.ndim)) if channels_first else tuple(range(1, tensor.ndim - 1))
        return (tensor.mean(axis=places) if places else tensor,)

    return run


def last_layer(model: Any) -> tuple[Any, Any]:
    """Return the last layer with weights on the way to the first output, and the tensor that it reads.

    Raises
    ------
    UntraceableModelError
        There is no such layer, or the model is no graph of layers.
    """
    tensor = model.outputs[0] if getattr(model, "outputs", None) else None
    while tensor is not None and tensor._keras_history.operation._inbound_nodes:
        history = tensor._keras_history
        node = history.operation._inbound_nodes[history.node_index]
        if not node.input_tensors:
            break
        tensor = node.input_tensors[0]
        if getattr(history.operation, "weights", None):
            return history.operation, tensor
    raise UntraceableModelError("the network has no layer with weights, and so no features below it")
