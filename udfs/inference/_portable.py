"""A trained network that needs none of its author's code: torch's exported program, or Keras's own archive."""

from __future__ import annotations

import hashlib
import io
import os
import tempfile
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from optimizer.errors import CerebroError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    Network = Callable[[Sequence[NDArray[Any]]], tuple[NDArray[np.float32], ...]]

__all__ = ["NotPortableError", "PortableNetwork"]

# Two, for a batch of one would be taken for a constant.
_TRACED_ROWS = 2


class NotPortableError(CerebroError, TypeError):
    """A network that cannot be written without its author's code; the message has its framework's reason."""


@dataclass(frozen=True)
class PortableNetwork:
    """A network in inference mode, as bytes.

    Parameters
    ----------
    framework : {"torch", "keras"}
    data : bytes
        A ``.pt2`` archive of ``torch.export``, or a ``.keras`` archive, which is opened in Keras's safe mode.
    """

    framework: Literal["torch", "keras"]
    data: bytes

    @classmethod
    def of(cls, model: Any, inputs: Sequence[NDArray[Any]]) -> PortableNetwork:
        """Write a network down.

        Parameters
        ----------
        model : torch.nn.Module or keras.Model
        inputs : sequence of array, each of shape (rows, ...)
            A few rows of what it reads.

        Raises
        ------
        NotPortableError
            Its Python cannot be turned into a graph (torch), or its classes are not registered (Keras).
        """
        try:
            if hasattr(model, "state_dict"):
                return cls("torch", _exported(model, inputs))
            return cls("keras", _archived(model))
        except Exception as error:
            raise NotPortableError(
                f"{type(model).__name__} cannot be written without its code: {type(error).__name__}: {error}. Its "
                "forward pass has to be free of control flow over data (torch.export), its layers registered (Keras)"
            ) from error

    @cached_property
    def digest(self) -> str:
        """Of the bytes."""
        return hashlib.blake2b(self.data, digest_size=16).hexdigest()

    def open(self) -> Network:
        """Make it ready to run; once a process.

        Returns
        -------
        callable
            Takes one array an input, of shape ``(rows, ...)``, gives a tuple of one array an output.
        """
        return _opened(self)

    def __hash__(self) -> int:
        return hash(self.digest)


@lru_cache(maxsize=4)
def _opened(network: PortableNetwork) -> Network:
    return _torch_network(network.data) if network.framework == "torch" else _keras_network(network.data)


def _exported(model: Any, inputs: Sequence[NDArray[Any]]) -> bytes:
    import torch  # noqa: PLC0415 - only of a network of torch

    rows = [np.concatenate([array] * _TRACED_ROWS)[:_TRACED_ROWS] for array in inputs]
    batch = torch.export.Dim("batch")
    training = model.training
    model.eval()
    try:
        program = torch.export.export(
            model,
            tuple(torch.from_numpy(np.ascontiguousarray(array)) for array in rows),
            dynamic_shapes=tuple({0: batch} for _ in rows),
        )
    finally:
        model.train(training)
    buffer = io.BytesIO()
    torch.export.save(program, buffer)
    return buffer.getvalue()


def _archived(model: Any) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "network.keras"
        model.save(path)
        # What it was compiled with belongs to the training.
        _keras_from(path)
        return path.read_bytes()


def _torch_network(data: bytes) -> Network:
    import torch  # noqa: PLC0415

    module = torch.export.load(io.BytesIO(data)).module()

    def run(inputs: Sequence[NDArray[Any]]) -> tuple[NDArray[np.float32], ...]:
        with torch.inference_mode():
            found = module(*(torch.from_numpy(np.ascontiguousarray(array)) for array in inputs))
        listed = found if isinstance(found, (list, tuple)) else [found]
        return tuple(output.float().numpy() for output in listed)

    return run


def _keras_network(data: bytes) -> Network:
    handle, name = tempfile.mkstemp(suffix=".keras")
    path = Path(name)
    try:
        os.close(handle)
        path.write_bytes(data)
        model = _keras_from(path)
    finally:
        path.unlink(missing_ok=True)

    def run(inputs: Sequence[NDArray[Any]]) -> tuple[NDArray[np.float32], ...]:
        found = model.predict_on_batch(inputs[0] if len(inputs) == 1 else list(inputs))
        listed = found if isinstance(found, (list, tuple)) else [found]
        return tuple(np.asarray(output, np.float32) for output in listed)

    return run


def _keras_from(path: Path) -> Any:
    import keras  # noqa: PLC0415 - only of a network of Keras

    return keras.saving.load_model(path, compile=False, safe_mode=True)
