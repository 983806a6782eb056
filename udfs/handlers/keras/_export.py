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
from udfs.tensors import TensorSpec

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from udfs.handlers._framework import Exported

__all__ = ["export", "open_export"]


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
    with tempfile.TemporaryDirectory() as folder:
        model = load_archive(Path(folder) / "network.keras", data)

    def run(inputs: Sequence[NDArray[Any]]) -> tuple[NDArray[np.float32], ...]:
        outputs = model.predict_on_batch(inputs[0] if len(inputs) == 1 else list(inputs))
        listed = outputs if isinstance(outputs, (list, tuple)) else [outputs]
        return tuple(np.asarray(output, np.float32) for output in listed)

    return run
