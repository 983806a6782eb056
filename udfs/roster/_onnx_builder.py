"""Builder of a network that ONNX Runtime executes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from optimizer.arguments import whole

if TYPE_CHECKING:
    from torch import nn

__all__ = ["OnnxBuilder"]


@dataclass(frozen=True, slots=True)
class OnnxBuilder:
    """Builder of a network of one layer, ``"0"``, whose weights are the bytes of an ONNX file.

    Parameters
    ----------
    size : int
        Size of the file in bytes.
    outputs : int
        Number of outputs of the network.

    Raises
    ------
    InvalidArgumentError
        ``size`` or ``outputs`` is not a positive integer.

    Examples
    --------
    >>> OnnxBuilder(size=1_000, outputs=10)()[0].model.shape
    torch.Size([1000])
    """

    size: int
    outputs: int

    def __post_init__(self) -> None:
        whole("size", self.size)
        whole("outputs", self.outputs)

    def __call__(self) -> nn.Module:
        """Build the network without content."""
        import torch
        from torch import nn

        from udfs.variants.torch import OnnxLayer  # imports torch

        return nn.Sequential(OnnxLayer(torch.empty(self.size, dtype=torch.uint8), self.outputs))
