"""Gradients of each row's own loss for some layers of a network, in factors where layers are linear."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["RowGradients"]


@dataclass(frozen=True, slots=True)
class RowGradients:
    """Gradients of some rows, a factorisation for each layer.

    A linear layer's gradient is the product of the gradient of its outputs and its inputs, so that a dot product of two
    gradients takes two short ones. ``inputs`` is None for other layers, whose whole gradients are in ``outputs``.
    """

    outputs: tuple[NDArray[np.float32], ...]  # each of shape (rows, outputs of the layer or parameters)
    inputs: tuple[NDArray[np.float32] | None, ...]  # each of shape (rows, inputs of the layer)
    has_bias: tuple[bool, ...]

    def dot(self, others: RowGradients) -> NDArray[np.float64]:
        """Return the dot products with the gradients of other rows, of shape (rows, other rows)."""
        total = np.zeros((len(self.outputs[0]), len(others.outputs[0])))
        for mine, fed, theirs, their_fed, bias in zip(
            self.outputs, self.inputs, others.outputs, others.inputs, self.has_bias, strict=True
        ):
            product = mine.astype(np.float64) @ theirs.T.astype(np.float64)
            if fed is not None and their_fed is not None:
                product *= fed.astype(np.float64) @ their_fed.T.astype(np.float64) + bias
            total += product
        return total

    def squared_norms(self) -> NDArray[np.float64]:
        """Return the dot product of each row's gradient with itself, of shape (rows,)."""
        total = np.zeros(len(self.outputs[0]))
        for mine, fed, bias in zip(self.outputs, self.inputs, self.has_bias, strict=True):
            norms = np.square(mine.astype(np.float64)).sum(axis=1)
            total += norms if fed is None else norms * (np.square(fed.astype(np.float64)).sum(axis=1) + bias)
        return total
