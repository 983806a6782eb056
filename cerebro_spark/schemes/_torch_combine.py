"""Combinations of the features of several layers, in torch."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Concatenation", "Last", "Sum", "WeightedSum"]


class Last(nn.Module):
    """The features of the topmost layer."""

    def forward(self, features: tuple[Tensor, ...]) -> Tensor:
        """Take them."""
        return features[-1]


class Sum(nn.Module):
    """The sum of the features.

    It begins at the top, so that the sums of the last two layers, of the last three and so on share their beginnings.
    """

    def forward(self, features: tuple[Tensor, ...]) -> Tensor:
        """Add them up."""
        return reduce(lambda total, below: total + below, features[::-1])


class WeightedSum(nn.Module):
    """The sum of the features with a weight a layer that learns; it begins as their mean."""

    def __init__(self, layers: int) -> None:
        super().__init__()
        self.weights = nn.Parameter(torch.full((layers,), 1 / layers))

    def forward(self, features: tuple[Tensor, ...]) -> Tensor:
        """Add them up."""
        return reduce(torch.add, [part * self.weights[place] for place, part in enumerate(features)])


class Concatenation(nn.Module):
    """The features side by side, projected to the width of the topmost layer.

    In ``images``, channels are the second axis; otherwise they are the last.
    """

    def __init__(self, widths: Sequence[int], *, images: bool) -> None:
        super().__init__()
        self.axis = 1 if images else -1
        total, width = sum(widths), widths[-1]
        self.projection = nn.Conv2d(total, width, 1) if images else nn.Linear(total, width)

    def forward(self, features: tuple[Tensor, ...]) -> Tensor:
        """Project them."""
        projected: Tensor = self.projection(torch.cat(features, self.axis))
        return projected
