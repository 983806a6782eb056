"""Process-wide settings of Keras and of its backend that a user's function may change."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import keras
from keras.src.backend.common import global_state

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["apply_settings", "take_settings"]

# keras.config.dtype_policy() sets a policy if there is none, which a later set_floatx does not change.
_POLICY = "dtype_policy"

_SETTINGS: dict[str, tuple[Callable[[], Any], Callable[[Any], Any]]] = {
    "floatx": (keras.config.floatx, keras.config.set_floatx),
    "epsilon": (keras.config.epsilon, keras.config.set_epsilon),
    "image data format": (keras.config.image_data_format, keras.config.set_image_data_format),
    _POLICY: (
        lambda: global_state.get_global_attribute(_POLICY),
        lambda policy: global_state.set_global_attribute(_POLICY, policy),
    ),
}


def take_settings() -> dict[str, Any]:
    """Read the settings of Keras and its backend by name."""
    return {name: read() for name, (read, _) in {**_SETTINGS, **_backend_settings()}.items()}


def apply_settings(settings: Mapping[str, Any]) -> None:
    """Set some settings of Keras and its backend by name."""
    functions = {**_SETTINGS, **_backend_settings()}
    for name, value in settings.items():
        functions[name][1](value)


def _backend_settings() -> dict[str, tuple[Callable[[], Any], Callable[[Any], Any]]]:
    if keras.backend.backend() != "tensorflow":
        return {}
    import tensorflow as tf  # another backend of Keras needs no TensorFlow
    from tensorflow.python.framework import config

    def set_deterministic(value: bool) -> None:
        (config.enable_op_determinism if value else config.disable_op_determinism)()

    return {
        "eager functions": (tf.config.functions_run_eagerly, tf.config.run_functions_eagerly),
        "deterministic": (config.is_op_determinism_enabled, set_deterministic),
    }
