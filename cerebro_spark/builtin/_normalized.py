"""Normalisation of images in front of a network."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Normalized"]


class Normalized(nn.Module):
    """Network behind a normalisation of its images.

    Parameters
    ----------
    network : torch.nn.Module
        Network for normalised images.
    mean, std : sequence of float
        Mean and standard deviation of each channel.

    Notes
    -----
    Input: images ``(N, 3, height, width)`` of RGB between 0 and 1, as shards have them.

    Examples
    --------
    >>> net = Normalized(nn.Flatten(), mean=(0.5, 0.5, 0.5), std=(0.5, 0.5, 0.5))
    >>> net(torch.ones(1, 3, 1, 1))
    tensor([[1., 1., 1.]])
    """

    mean: Tensor
    std: Tensor

    def __init__(self, network: nn.Module, mean: Sequence[float], std: Sequence[float]) -> None:
        super().__init__()
        self.network = network
        self.register_buffer("mean", torch.tensor(mean).view(3, 1, 1), persistent=False)
        self.register_buffer("std", torch.tensor(std).view(3, 1, 1), persistent=False)

    def forward(self, image: Tensor) -> Tensor:
        """Normalise the images, and run the network."""
        scored: Tensor = self.network((image - self.mean) / self.std)
        return scored
