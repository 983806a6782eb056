"""Trained models without their author's code: Keras's own archives, opened in its safe mode."""

from __future__ import annotations

import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import keras
import numpy as np

from udfs.handlers.keras._archive import load_archive
from udfs.handlers.keras._flat_model import own_classes
from udfs.handlers.keras._pickling import without_own_classes
from udfs.packing import StateError, unpack
from udfs.tensors import TensorSpec

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from udfs.handlers._framework import Exported, Reloadable

__all__ = ["export", "open_export", "open_reloadable"]


def export(model: Any, inputs: Sequence[NDArray[Any]]) -> bytes:
    """Write a ``.keras`` archive, and open it to see that it needs no code.

    A model with classes of a user, registered or not, is written as the layers of Keras that it calls, because other
    processes do not know the classes.

    Raises
    ------
    UntraceableModelError
        The model calls other operations too.
    """
    if own_classes(model):
        specs = [TensorSpec(array.shape[1:], str(array.dtype)) for array in inputs]
        model = without_own_classes(model, specs)[0]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "network.keras"
        model.save(path)
        data = path.read_bytes()
        with _without_registered():
            load_archive(path, data)
        return data


@contextmanager
def _without_registered() -> Iterator[None]:
    """Clear Keras's registered classes and functions for a block, because other processes do not have them."""
    registered = keras.saving.get_custom_objects()
    before = dict(registered)
    registered.clear()
    try:
        yield
    finally:
        registered.update(before)


def open_export(data: bytes) -> Exported:
    """Open a ``.keras`` archive as a function of arrays, through :func:`load_archive`."""
    return _runner(_opened(data))


def open_reloadable(data: bytes) -> Reloadable:
    """Open a ``.keras`` archive whose weights can be replaced."""
    model = _opened(data)

    def load(weights: bytes) -> None:
        values = unpack(weights, lambda array, _kind: array)["model"]
        variables = list(model.variables)
        if [np.shape(value) for value in values] != [tuple(variable.shape) for variable in variables]:
            raise StateError("weights must be of the same model, and its variables have other shapes")
        for value, variable in zip(values, variables, strict=True):
            variable.assign(value)

    return load, _runner(model)


def _opened(data: bytes) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        return load_archive(Path(folder) / "network.keras", data)


def _runner(model: Any) -> Exported:
    def run(inputs: Sequence[NDArray[Any]]) -> tuple[NDArray[np.float32], ...]:
        outputs = model.predict_on_batch(inputs[0] if len(inputs) == 1 else list(inputs))
        listed = outputs if isinstance(outputs, (list, tuple)) else [outputs]
        return tuple(np.asarray(output, np.float32) for output in listed)

    return run
