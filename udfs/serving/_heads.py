"""Linear heads over a layer of a network, read from weight files."""

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
    """Linear layer.

    Examples
    --------
    >>> head = Head(np.array([[1.0, 2.0]], np.float32), np.array([0.5], np.float32))
    >>> head(np.array([[[3.0], [4.0]]], np.float32))
    array([[11.5]], dtype=float32)
    """

    weight: NDArray[np.float32]  # weight matrix, of shape (outputs, features)
    bias: NDArray[np.float32]  # bias vector, of shape (outputs,)

    @property
    def features(self) -> int:
        """Numbers that it reads."""
        return int(self.weight.shape[1])

    def __call__(self, batch: NDArray[np.float32]) -> NDArray[np.float32]:
        """Apply the head to a batch of flattened records."""
        flat = batch.reshape(len(batch), -1)
        result: NDArray[np.float32] = flat @ self.weight.T + self.bias
        return result


def read_head(file: str) -> Head:
    """Read a head from a file with one matrix and at most one vector, such as the state dict of ``torch.nn.Linear``.

    Parameters
    ----------
    file : str
        Path or URI, as for :func:`udfs.weights.read_state_dict`.

    Raises
    ------
    udfs.weights.WeightsError
        The file cannot be read, or does not contain a linear layer.
    """
    tensors = {name: tensor.float().numpy() for name, tensor in read_state_dict(file).items()}
    matrices = [array for array in tensors.values() if array.ndim == _MATRIX]
    vectors = [array for array in tensors.values() if array.ndim == 1]
    shapes = ", ".join(f"{name} {array.shape}" for name, array in tensors.items())
    if len(matrices) != 1 or len(vectors) > 1 or len(tensors) != len(matrices) + len(vectors):
        raise WeightsError(
            f"The head {file} must have one matrix and at most one vector, got {shapes}. Save the state dict of a "
            "torch.nn.Linear."
        )
    weight = matrices[0]
    bias = vectors[0] if vectors else np.zeros(len(weight), np.float32)
    if bias.shape != weight.shape[:1]:
        raise WeightsError(f"The head {file} must have one bias per output, got {len(bias)} for {len(weight)} outputs.")
    if not (np.isfinite(weight).all() and np.isfinite(bias).all()):
        raise WeightsError(f"The head {file} must be finite, got NaN or an infinity.")
    return Head(weight, bias)
