"""SqueezeNet 1.1."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import nn

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["SqueezeNet"]


class _Fire(nn.Module):
    """Squeeze by 1x1, expand by 1x1 and by 3x3 side by side (paper, figure 1)."""

    def __init__(self, inputs: int, squeeze: int, expand: int) -> None:
        super().__init__()
        self.squeeze = nn.Conv2d(inputs, squeeze, 1)
        self.squeeze_activation = nn.ReLU()
        self.expand1x1 = nn.Conv2d(squeeze, expand, 1)
        self.expand1x1_activation = nn.ReLU()
        self.expand3x3 = nn.Conv2d(squeeze, expand, 3, padding=1)
        self.expand3x3_activation = nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        x = self.squeeze_activation(self.squeeze(x))
        return torch.cat(
            [self.expand1x1_activation(self.expand1x1(x)), self.expand3x3_activation(self.expand3x3(x))], dim=1
        )


class SqueezeNet(nn.Module):
    """Network of one convolution, eight fire modules and a 1x1 convolution that is the classifier.

    Input ``(N, 3, 224, 224)``, output ``(N, classes)`` logits. Iandola et al., *SqueezeNet: AlexNet-level accuracy with
    50x fewer parameters*, 2016 (https://arxiv.org/abs/1602.07360), in the authors' revision 1.1, which pools earlier.

    Examples
    --------
    >>> SqueezeNet(classes=10).eval()(torch.zeros(1, 3, 224, 224)).shape
    torch.Size([1, 10])
    """

    def __init__(self, classes: int = 1000) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 64, 3, stride=2),
            nn.ReLU(),
            nn.MaxPool2d(3, stride=2, ceil_mode=True),
            _Fire(64, 16, 64),
            _Fire(128, 16, 64),
            nn.MaxPool2d(3, stride=2, ceil_mode=True),
            _Fire(128, 32, 128),
            _Fire(256, 32, 128),
            nn.MaxPool2d(3, stride=2, ceil_mode=True),
            _Fire(256, 48, 192),
            _Fire(384, 48, 192),
            _Fire(384, 64, 256),
            _Fire(512, 64, 256),
        )
        self.classifier = nn.Sequential(
            nn.Dropout(), nn.Conv2d(512, classes, 1), nn.ReLU(), nn.AdaptiveAvgPool2d((1, 1))
        )

    def forward(self, x: Tensor) -> Tensor:
        """Map ``(N, 3, 224, 224)`` images to ``(N, classes)`` logits."""
        return torch.flatten(self.classifier(self.features(x)), 1)
