"""Gradients of each row's own loss for the last layer of a Keras network, on TensorFlow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import keras
import numpy as np

from optimizer.errors import InvalidArgumentError
from udfs.handlers._protocol import UntraceableModelError
from udfs.handlers._row_gradients import RowGradients
from udfs.handlers.keras._last_features import last_layer as find_last_layer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from udfs.handlers.keras._session import KerasSession

__all__ = ["check_backend", "last_layer", "learning_rate", "row_gradients"]

_LAST = "last layer"


def check_backend() -> None:
    """Raise InvalidArgumentError unless Keras runs on TensorFlow."""
    if keras.backend.backend() != "tensorflow":
        raise InvalidArgumentError(
            f"selection must have a network of Keras on TensorFlow for influences, got one on "
            f"{keras.backend.backend()}. Set KERAS_BACKEND=tensorflow"
        )


def learning_rate(session: KerasSession) -> float:
    """Return the learning rate of the session's optimizer at its present step."""
    return float(keras.ops.convert_to_numpy(session.model.optimizer.learning_rate))


def last_layer(session: KerasSession, inputs: Sequence[NDArray[Any]]) -> str:
    """Return a name of the last layer with weights that holds in all processes: Keras counts unnamed layers.

    The inputs are not needed.

    Raises
    ------
    InvalidArgumentError
        It is no Dense layer that reads a vector for each row.
    """
    del inputs
    _last_dense(session)
    return _LAST


def row_gradients(
    session: KerasSession, inputs: Sequence[NDArray[Any]], labels: NDArray[Any], layers: Sequence[str]
) -> RowGradients:
    """Compute the gradients of each row's loss for the last layer, in inference mode.

    Parameters
    ----------
    session : KerasSession
        Session of the network.
    inputs : sequence of array, each of shape (rows, ...)
        Inputs of the network.
    labels : array, shape (rows, ...)
        Labels of its first output.
    layers : sequence of str
        Name of the last layer alone, its own or that of :func:`last_layer`.

    Raises
    ------
    InvalidArgumentError
        The layers are other ones.
    """
    import tensorflow as tf

    layer = _last_dense(session)
    if list(layers) not in ([_LAST], [layer.name]):
        raise InvalidArgumentError(
            f"layers must be [{layer.name!r}], the last layer, for a network of Keras, got {list(layers)!r}. Leave "
            "layers out"
        )
    read = session.read(tuple(inputs))
    fed = read[0] if len(read) == 1 else read
    (known,) = session._fitted([labels], fed)
    seen: list[tuple[Any, Any]] = []
    with session._placed(), tf.GradientTape(watch_accessed_variables=False) as tape:

        def call(received: Any, *_: Any, **__: Any) -> Any:
            output = keras.ops.matmul(received, layer.kernel)
            output = output if layer.bias is None else keras.ops.add(output, layer.bias)
            tape.watch(output)
            seen.append((received, output))
            return layer.activation(output)

        original = layer.call
        layer.call = call
        try:
            outputs = session.model(fed, training=False)
        finally:
            layer.call = original
        first = outputs[0] if isinstance(outputs, (list, tuple)) else outputs
        # Each row by itself: a mean over the batch may weigh rows by their classes.
        places = [slice(row, row + 1) for row in range(len(labels))]
        losses = [session.model.compute_loss(y=known[row], y_pred=first[row], training=False) for row in places]
        total = tf.add_n(losses)
    ((received, output),) = seen
    gradient = tape.gradient(total, output)
    return RowGradients(
        (np.asarray(gradient, np.float32),), (np.asarray(received, np.float32),), (layer.bias is not None,)
    )


def _last_dense(session: KerasSession) -> Any:
    try:
        layer, features = find_last_layer(session.model)
    except UntraceableModelError as error:
        raise InvalidArgumentError(f"selection must have a network for influences that is a graph: {error}") from error
    if type(layer) is not keras.layers.Dense or len(features.shape) != 2:
        raise InvalidArgumentError(
            f"selection must have a network whose last layer with weights is Dense for influences of Keras, got "
            f"{type(layer).__name__} ({layer.name}). Train it in torch"
        )
    return layer
