"""Modes of operations: frozen layers in inference mode, and no layer fused with the next."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["frozen_in_inference", "is_frozen", "unfused"]


def is_frozen(layer: Any) -> bool:
    """Return whether a layer has ``trainable=False``, and no layer within it that learns."""
    return not layer.trainable and not any(variable.trainable for variable in layer.variables)


@contextmanager
def frozen_in_inference(model: Any) -> Iterator[None]:
    """Keep the frozen layers of a model in inference mode while the others train, with all that lies inside them.

    Keras does this only for batch norm: a dropout in a frozen block would be active. It takes effect when a step is
    traced.

    Examples
    --------
    >>> import keras
    >>> import numpy as np
    >>> net = keras.Sequential([keras.Input((4,)), keras.layers.Dropout(0.5, trainable=False)])
    >>> with frozen_in_inference(net):
    ...     net(np.ones((1, 4)), training=True).numpy().tolist()
    [[1.0, 1.0, 1.0, 1.0]]
    """
    frozen = [
        layer
        for layer in model._flatten_layers()
        if is_frozen(layer) and getattr(layer, "_call_has_training_arg", False) and "call" not in vars(layer)
    ]
    for layer in frozen:
        # Past Keras's own setter, which would look for weights in it.
        vars(layer)["call"] = _inferring(layer.call)
    try:
        yield
    finally:
        for layer in frozen:
            del vars(layer)["call"]


@contextmanager
def unfused() -> Iterator[None]:
    """Keep TensorFlow from fusing and reordering operations across layers.

    A fused pair rounds in other places than its two halves, and where a cut falls would show in the numbers. On the
    CPU there is no loss: what is fast is the graph, not the fusing (measured on MobileNetV2, and on steps of a CNN).
    """
    import tensorflow as tf  # Keras has others beneath it too

    before = tf.config.optimizer.get_experimental_options().get("disable_meta_optimizer", False)
    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})
    try:
        yield
    finally:
        tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": before})


def _inferring(call: Callable[..., Any]) -> Callable[..., Any]:
    def inferring(*args: Any, **kwargs: Any) -> Any:
        return call(*args, **{**kwargs, "training": False})

    return inferring
