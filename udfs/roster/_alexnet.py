"""AlexNet, as torchvision has it: the one-tower variant."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import nn

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["AlexNet"]


class AlexNet(nn.Module):
    """Five convolutions and three fully-connected layers.

    Input ``(N, 3, 224, 224)``, output ``(N, classes)`` logits. The convolutions are those of Krizhevsky, *One weird
    trick for parallelizing convolutional neural networks*, 2014 (https://arxiv.org/abs/1404.5997), without local
    response normalisation.

    Examples
    --------
    >>> AlexNet(classes=10).eval()(torch.zeros(1, 3, 224, 224)).shape
    torch.Size([1, 10])
    """

    def __init__(self, classes: int = 1000) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 64, 11, stride=4, padding=2),
            nn.ReLU(),
            nn.MaxPool2d(3, stride=2),
            nn.Conv2d(64, 192, 5, padding=2),
            nn.ReLU(),
            nn.MaxPool2d(3, stride=2),
            nn.Conv2d(192, 384, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(384, 256, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(256, 256, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(3, stride=2),
        )
        self.avgpool = nn.AdaptiveAvgPool2d((6, 6))
        self.classifier = nn.Sequential(
            nn.Dropout(),
            nn.Linear(256 * 6 * 6, 4096),
            nn.ReLU(),
            nn.Dropout(),
            nn.Linear(4096, 4096),
            nn.ReLU(),
            nn.Linear(4096, classes),
        )

    def forward(self, x: Tensor) -> Tensor:
        """Map ``(N, 3, 224, 224)`` images to ``(N, classes)`` logits."""
        x = self.avgpool(self.features(x))
        logits: Tensor = self.classifier(torch.flatten(x, 1))
        return logits
