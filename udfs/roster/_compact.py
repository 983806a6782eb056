"""Compact networks of MCDNN."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import nn

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["COMPACT_SHAPES", "CompactNetwork"]

_Layers = tuple[tuple[int, ...], ...]


def _objects(first: int, inner: int) -> _Layers:
    stem = ((11, first, 4, 0), (3, 2), (5, 256, 2, 2), (3, 2))
    return (*stem, (3, inner, 1, 1), (3, inner, 1, 1), (3, 256, 1, 1), (3, 2))


def _faces(second: int, third: int, stride: int) -> _Layers:
    inner = ((3, second, stride, 1), (2, 2), (3, third, stride, 1), (2, 2), (3, 256, stride, 1), (2, 2))
    return ((3, 64, 2, 1), (2, 2), *inner)


COMPACT_SHAPES: dict[str, tuple[int, _Layers, tuple[int, int], int]] = {
    "CompactO1": (227, _objects(96, 384), (4096, 4096), 1000),
    "CompactO2": (227, _objects(64, 256), (1024, 2048), 1000),
    "CompactS1": (227, _objects(96, 384), (2048, 2048), 205),
    "CompactS2": (227, _objects(64, 256), (1024, 2048), 205),
    "CompactF1": (152, _faces(128, 256, 1), (2048, 2048), 2622),
    "CompactF2": (152, _faces(128, 128, 2), (1024, 1024), 2622),
}
"""Side of the input, convolutions (kernel, channels, stride, padding) and poolings (kernel, stride), hidden layers and
classes of each network: table B.1 of the thesis."""


class CompactNetwork(nn.Module):
    """Convolutions with max pooling, and three fully-connected layers.

    Input ``(N, 3, side, side)``, output ``(N, classes)`` logits. Haichen Shen, *System for serving deep neural networks
    efficiently*, PhD thesis, University of Washington, 2018, table B.1. Poolings round their sizes up, as Caffe's do.

    Examples
    --------
    >>> CompactNetwork("CompactF2")(torch.zeros(1, 3, 152, 152)).shape
    torch.Size([1, 2622])
    """

    def __init__(self, shape: str) -> None:
        super().__init__()
        side, table, hidden, classes = COMPACT_SHAPES[shape]
        layers: list[nn.Module] = []
        channels = 3
        for size, *rest in table:
            if len(rest) == 1:
                layers.append(nn.MaxPool2d(size, rest[0], ceil_mode=True))
                side = -(-(side - size) // rest[0]) + 1
                continue
            outputs, stride, padding = rest
            layers += [nn.Conv2d(channels, outputs, size, stride, padding), nn.ReLU()]
            side, channels = (side + 2 * padding - size) // stride + 1, outputs
        self.features = nn.Sequential(*layers)
        self.classifier = nn.Sequential(
            nn.Linear(channels * side * side, hidden[0]),
            nn.ReLU(),
            nn.Linear(hidden[0], hidden[1]),
            nn.ReLU(),
            nn.Linear(hidden[1], classes),
        )

    def forward(self, x: Tensor) -> Tensor:
        """Map images to ``(N, classes)`` logits."""
        logits: Tensor = self.classifier(torch.flatten(self.features(x), 1))
        return logits
