"""Linear heads over a network's layer, read from files of weights."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from udfs.weights import WeightsError, read_state_dict

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Head", "read_head"]

_MATRIX = 2


@dataclass(frozen=True, slots=True)
class Head:
    """A linear layer.

    Parameters
    ----------
    weight : array of float32, shape (outputs, features)
    bias : array of float32, shape (outputs,)

    Examples
    --------
    >>> head = Head(np.array([[1.0, 2.0]], np.float32), np.array([0.5], np.float32))
    >>> head(np.array([[[3.0], [4.0]]], np.float32))
    array([[11.5]], dtype=float32)
    """

    weight: NDArray[np.float32]
    bias: NDArray[np.float32]

    @property
    def features(self) -> int:
        """Numbers that it reads."""
        return int(self.weight.shape[1])

    def __call__(self, batch: NDArray[np.float32]) -> NDArray[np.float32]:
        """Apply it to each record's numbers, flattened."""
        flat = batch.reshape(len(batch), -1)
        result: NDArray[np.float32] = flat @ self.weight.T + self.bias
        return result


def read_head(file: str) -> Head:
    """Read a head: a file with one matrix, and perhaps one vector, such as the state dict of ``torch.nn.Linear``.

    Parameters
    ----------
    file : str
        As for :func:`udfs.weights.read_state_dict`.

    Raises
    ------
    udfs.weights.WeightsError
        The file cannot be read, or holds something else.
    """
    tensors = {name: tensor.float().numpy() for name, tensor in read_state_dict(file).items()}
    matrices = [array for array in tensors.values() if array.ndim == _MATRIX]
    vectors = [array for array in tensors.values() if array.ndim == 1]
    shapes = ", ".join(f"{name} {array.shape}" for name, array in tensors.items())
    if len(matrices) != 1 or len(vectors) > 1 or len(tensors) != len(matrices) + len(vectors):
        raise WeightsError(f"{file} is no linear head: it has {shapes}; save the state dict of one torch.nn.Linear")
    weight = matrices[0]
    bias = vectors[0] if vectors else np.zeros(len(weight), np.float32)
    if bias.shape != weight.shape[:1]:
        raise WeightsError(f"{file} is no linear head: {len(bias)} biases for {len(weight)} outputs")
    if not (np.isfinite(weight).all() and np.isfinite(bias).all()):
        raise WeightsError(f"{file} has numbers that are not finite")
    return Head(weight, bias)
