"""Keras as a framework of the registry: everything that the project asks of Keras."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from optimizer.errors import InvalidArgumentError
from udfs.handlers._adapted_trainer import trained_whole
from udfs.handlers._framework import Framework
from udfs.handlers._read_inputs import zero_rows
from udfs.handlers.keras._import import import_keras
from udfs.node import DeviceError

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from udfs.handlers._adapted_trainer import Adapted
    from udfs.handlers._framework import Builder, Exported, Reloadable
    from udfs.handlers.keras._model import KerasModel
    from udfs.tensors import TensorSpec
    from udfs.training import Session, Trainer

__all__ = ["FRAMEWORK", "KerasFramework"]

# Where Keras is missing, this is the import that fails. The other modules choose TensorFlow when they are needed:
# training runs on Keras's other backends too.
import_keras()


class KerasFramework(Framework):
    """Keras's side of :class:`udfs.handlers.Framework`."""

    name = "keras"
    suffix = ".keras"
    channels_last = True
    sample_weights = True
    freezing_schedules = True

    def recognises(self, model: object) -> bool:
        """Return whether it is a ``keras.Model``."""
        import keras  # here Keras is imported, on whatever backend

        return isinstance(model, keras.Model)

    def trace(self, model: object, inputs: Sequence[TensorSpec], *, device: str = "cpu") -> KerasModel:
        """Open a built ``model`` into a graph; weights are shared, not copied. It runs with ``training=False``.

        Raise UntraceableModelError if it is no Keras model, is not built, takes other inputs, or its Python cannot be
        opened, and DeviceError if this process has no such device.
        """
        from udfs.handlers.keras._model import open_model  # imports TensorFlow

        return open_model(model, inputs, self.device(device))

    def device(self, wanted: str) -> str:
        """Resolve TensorFlow's name of a device, given the platform's: ``"cuda:1"`` is ``"GPU:1"``."""
        import keras

        if keras.backend.backend() != "tensorflow":
            return wanted  # training leaves placing to the backend
        import tensorflow as tf

        present = {kind: len(tf.config.list_physical_devices(kind)) for kind in ("CPU", "GPU")}
        if wanted == "auto":
            return "GPU:0" if present["GPU"] else "CPU:0"
        kind, _, number = wanted.lower().partition(":")
        kind = {"cuda": "GPU", "gpu": "GPU", "cpu": "CPU"}.get(kind, "")
        if not kind or (number and not number.isdigit()) or int(number or 0) >= present[kind]:
            raise DeviceError(
                f"device must be one of this process ({present['GPU']} GPUs seen), got {wanted!r}: use 'cpu' or 'auto'"
            )
        return f"{kind}:{number or 0}"

    @contextmanager
    def on(self, device: str) -> Iterator[None]:
        """Run a block's operations on a device of TensorFlow; Keras's other backends place them themselves."""
        import keras

        if keras.backend.backend() != "tensorflow":
            yield
            return
        import tensorflow as tf

        with tf.device(device):
            yield

    def seed(self, seed: int) -> None:
        """Seed Keras and its backend; the states of a model's own generators are variables of it."""
        import keras

        keras.utils.set_random_seed(seed)

    def take_settings(self) -> dict[str, Any]:
        """Read Keras's number type, epsilon, data format and policy, and TensorFlow's eager and deterministic flags."""
        from udfs.handlers.keras import _settings

        return _settings.take_settings()

    def apply_settings(self, settings: Mapping[str, Any]) -> None:
        """Set some of the settings of Keras and TensorFlow."""
        from udfs.handlers.keras import _settings

        _settings.apply_settings(settings)

    def build_variables(self, model: Any, inputs: Sequence[TensorSpec]) -> None:
        """Call a model once on zeros if one of its layers has no variables before its first call."""
        if model.built and all(layer.built for layer in model._flatten_layers()):
            return
        zeros = zero_rows(inputs)
        model(zeros[0] if len(zeros) == 1 else zeros, training=False)

    def open_training(self, trainer: Trainer, device: str) -> Session:
        """Open a session of Keras; its steps run on the device."""
        from udfs.handlers.keras._session import KerasSession  # inference needs nothing of training

        return KerasSession(trainer, partial(self.on, device))

    def open_adapted(
        self, trainer: Trainer, inputs: Sequence[TensorSpec], columns: Sequence[str], device: str
    ) -> Adapted:
        """Open a functional or sequential model; one that trains on another backend than TensorFlow trains whole."""
        import keras

        from udfs.training import TrainerError  # inference needs nothing of training

        if trainer.model.built and not trainer.model.trainable_variables:
            raise TrainerError(f"model must have a trainable layer with weights, and {trainer.model.name!r} has none")
        if keras.backend.backend() != "tensorflow":
            why = f"Keras runs on {keras.backend.backend()}, and models are opened on TensorFlow alone"
            return trained_whole(self.open_training(trainer, device), trainer, inputs, columns, why)
        from udfs.handlers.keras import _adapted_trainer  # imports TensorFlow

        return _adapted_trainer.open_adapted(trainer, inputs, columns, device, partial(self.on, device))

    @contextmanager
    def frozen(self, model: Any) -> Iterator[None]:
        """Freeze the variables of a model for a block."""
        trainable, model.trainable = model.trainable, False
        try:
            yield
        finally:
            model.trainable = trainable

    def export(self, model: Any, inputs: Sequence[NDArray[Any]]) -> bytes:
        """Write a ``.keras`` archive of Keras's own layers; a model of other classes as the layers that it calls."""
        from udfs.handlers.keras import _export

        return _export.export(model, inputs)

    def open_export(self, data: bytes) -> Exported:
        """Open a ``.keras`` archive in Keras's safe mode."""
        from udfs.handlers.keras import _export

        return _export.open_export(data)

    def open_reloadable(self, data: bytes) -> Reloadable:
        """Open a ``.keras`` archive whose weights can be replaced."""
        from udfs.handlers.keras import _export

        return _export.open_reloadable(data)

    def open_features(self, data: bytes) -> Exported:
        """Open a ``.keras`` archive up to its last layer with weights."""
        from udfs.handlers.keras import _last_features

        return _last_features.open_features(data)

    def fingerprint(self, model: Any) -> str:
        """Hash configuration, classes and the values of the weights."""
        from udfs.handlers.keras import _pickling as _travel

        return _travel.fingerprint(model)

    def pack(self, model: Any, inputs: Sequence[TensorSpec], path: Path) -> bytes:
        """Write a ``.keras`` archive: it is all of the model, and the closure has nothing."""
        self.write_network(model, inputs, path)
        return b""

    def unpack(self, code: bytes, path: Path) -> Any:  # there is none
        """Open a ``.keras`` archive."""
        return self.open_network(path)

    def write_network(self, model: Any, inputs: Sequence[TensorSpec], path: Path) -> None:
        """Write a ``.keras`` archive of Keras's own layers; a model of other classes as the layers that it calls."""
        from udfs.handlers.keras import _pickling as _travel

        _travel.write_network(model, inputs, path)

    def open_network(self, path: Path) -> Any:
        """Open a ``.keras`` archive, which runs no code."""
        from udfs.handlers.keras import _pickling as _travel

        return _travel.open_network(path)

    def parameters(self, network: Any) -> int:
        """Count the scalars as Keras's summary does."""
        return int(network.count_params())

    def build(self, builder: Builder, inputs: Sequence[TensorSpec], seed: int) -> Any:
        """Build with Python's and numpy's generators at a seed, and put them back."""
        from udfs.handlers.keras import _networks

        return _networks.build(builder, inputs, seed)

    def load(
        self,
        builder: Builder,
        inputs: Sequence[TensorSpec],
        weights: str | os.PathLike[str] | Mapping[str, Any],
        seed: int,
        name: str,
    ) -> Any:
        """Build, and read a file into it."""
        from udfs.weights.keras import fit_weights

        if isinstance(weights, Mapping):
            raise InvalidArgumentError(
                f"the weights of Keras's model {name!r} come from a file (.weights.h5, .h5, .keras), not a mapping"
            )
        network = self.build(builder, inputs, seed)
        fit_weights(network, weights, name)
        return network

    def paths(self, network: Any, inputs: Sequence[TensorSpec]) -> list[str]:
        """Name the layers that give one tensor, in the order in which they give it."""
        return list(self.trace(network, inputs).paths)


FRAMEWORK: Framework = KerasFramework()
