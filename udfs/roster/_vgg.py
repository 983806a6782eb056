"""VGG16: configuration D of the paper, without batch normalisation."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import nn

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["VGG16"]

_STAGES = ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3))
"""Width and number of 3x3 convolutions of each of the five stages; a 2x2 max pooling ends each."""


class VGG16(nn.Module):
    """Thirteen 3x3 convolutions in five stages and three fully-connected layers.

    Input ``(N, 3, 224, 224)``, output ``(N, classes)`` logits. Simonyan and Zisserman, *Very deep convolutional
    networks for large-scale image recognition*, ICLR 2015 (https://arxiv.org/abs/1409.1556), table 1, column D.

    Examples
    --------
    >>> with torch.device("meta"):
    ...     VGG16()(torch.zeros(2, 3, 224, 224)).shape
    torch.Size([2, 1000])
    """

    def __init__(self, classes: int = 1000) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        channels = 3
        for width, depth in _STAGES:
            for _ in range(depth):
                layers += [nn.Conv2d(channels, width, 3, padding=1), nn.ReLU()]
                channels = width
            layers.append(nn.MaxPool2d(2, stride=2))
        self.features = nn.Sequential(*layers)
        self.avgpool = nn.AdaptiveAvgPool2d((7, 7))
        self.classifier = nn.Sequential(
            nn.Linear(512 * 7 * 7, 4096),
            nn.ReLU(),
            nn.Dropout(),
            nn.Linear(4096, 4096),
            nn.ReLU(),
            nn.Dropout(),
            nn.Linear(4096, classes),
        )

    def forward(self, x: Tensor) -> Tensor:
        """Map ``(N, 3, 224, 224)`` images to ``(N, classes)`` logits."""
        x = self.avgpool(self.features(x))
        logits: Tensor = self.classifier(torch.flatten(x, 1))
        return logits
