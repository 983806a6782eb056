"""MobileNetV2."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import nn

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["MobileNetV2"]

_STAGES = (
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)
"""Expansion, width, number of blocks and stride of the first of them: table 2 of the paper."""


def _convolution(inputs: int, outputs: int, kernel: int, stride: int = 1, groups: int = 1) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, kernel, stride=stride, padding=kernel // 2, groups=groups, bias=False),
        nn.BatchNorm2d(outputs),
        nn.ReLU6(),
    )


class _InvertedResidual(nn.Module):
    """Expand, filter depthwise, project linearly; the input is added where the shapes agree (paper, figure 4d)."""

    def __init__(self, inputs: int, outputs: int, stride: int, expansion: int) -> None:
        super().__init__()
        hidden = inputs * expansion
        self.residual = stride == 1 and inputs == outputs
        expand = [] if expansion == 1 else [_convolution(inputs, hidden, 1)]
        self.conv = nn.Sequential(
            *expand,
            _convolution(hidden, hidden, 3, stride, groups=hidden),
            nn.Conv2d(hidden, outputs, 1, bias=False),
            nn.BatchNorm2d(outputs),
        )

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.conv(x)
        return x + y if self.residual else y


class MobileNetV2(nn.Module):
    """A stem, seventeen inverted residual blocks, a wide 1x1 convolution and one fully-connected layer.

    Input ``(N, 3, 224, 224)``, output ``(N, classes)`` logits; width multiplier 1. Sandler et al., *MobileNetV2:
    inverted residuals and linear bottlenecks*, CVPR 2018 (https://arxiv.org/abs/1801.04381), table 2.

    Examples
    --------
    >>> MobileNetV2(classes=10).eval()(torch.zeros(1, 3, 224, 224)).shape
    torch.Size([1, 10])
    """

    def __init__(self, classes: int = 1000) -> None:
        super().__init__()
        channels = 32
        features: list[nn.Module] = [_convolution(3, channels, 3, 2)]
        for expansion, width, depth, stride in _STAGES:
            for index in range(depth):
                features.append(_InvertedResidual(channels, width, 1 if index else stride, expansion))
                channels = width
        features.append(_convolution(channels, 1280, 1))
        self.features = nn.Sequential(*features)
        # A module where torchvision calls a function: without parameters it adds no key, and the layer gets a path.
        self.pool = nn.AdaptiveAvgPool2d((1, 1))
        self.classifier = nn.Sequential(nn.Dropout(0.2), nn.Linear(1280, classes))

    def forward(self, x: Tensor) -> Tensor:
        """Map ``(N, 3, 224, 224)`` images to ``(N, classes)`` logits."""
        x = self.pool(self.features(x))
        logits: Tensor = self.classifier(torch.flatten(x, 1))
        return logits
