"""Trained models without their author's code: Keras's own archives, opened in its safe mode."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from udfs.handlers.keras._archive import load_archive

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from udfs.handlers._framework import Exported

__all__ = ["export", "open_export"]


def export(model: Any) -> bytes:
    """Write a ``.keras`` archive, and open it to see that it needs no code."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "network.keras"
        model.save(path)
        data = path.read_bytes()
        load_archive(path, data)
        return data


def open_export(data: bytes) -> Exported:
    """Open a ``.keras`` archive as a function of arrays, through :func:`load_archive`."""
    with tempfile.TemporaryDirectory() as folder:
        model = load_archive(Path(folder) / "network.keras", data)

    def run(inputs: Sequence[NDArray[Any]]) -> tuple[NDArray[np.float32], ...]:
        outputs = model.predict_on_batch(inputs[0] if len(inputs) == 1 else list(inputs))
        listed = outputs if isinstance(outputs, (list, tuple)) else [outputs]
        return tuple(np.asarray(output, np.float32) for output in listed)

    return run
