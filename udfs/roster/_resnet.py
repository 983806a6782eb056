"""ResNet18 and ResNet50."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import nn

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["ResNet", "ResNet18", "ResNet50"]


_BRANCH = 0.2
"""Initial weight of a residual branch: at 1, each block of a network with random weights doubles the variance."""


def _shortcut(inputs: int, outputs: int, stride: int) -> nn.Sequential | None:
    if stride == 1 and inputs == outputs:
        return None
    return nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride=stride, bias=False), nn.BatchNorm2d(outputs))


class _Basic(nn.Module):
    """Two 3x3 convolutions beside the identity (paper, figure 5 left)."""

    expansion = 1

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, width, 3, stride=stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        # One module a nonlinearity: a path that ran twice would not name one tensor.
        self.relu1 = nn.ReLU()
        self.conv2 = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        nn.init.constant_(self.bn2.weight, _BRANCH)
        self.relu2 = nn.ReLU()
        self.downsample = _shortcut(inputs, width, stride)

    def forward(self, x: Tensor) -> Tensor:
        y = self.relu1(self.bn1(self.conv1(x)))
        y = self.bn2(self.conv2(y))
        identity = x if self.downsample is None else self.downsample(x)
        out: Tensor = self.relu2(y + identity)
        return out


class _Bottleneck(nn.Module):
    """1x1, 3x3, 1x1 beside the identity (paper, figure 5 right); the stride is the 3x3's, as in torchvision."""

    expansion = 4

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, width, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.relu1 = nn.ReLU()
        self.conv2 = nn.Conv2d(width, width, 3, stride=stride, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.relu2 = nn.ReLU()
        self.conv3 = nn.Conv2d(width, width * self.expansion, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(width * self.expansion)
        nn.init.constant_(self.bn3.weight, _BRANCH)
        self.relu3 = nn.ReLU()
        self.downsample = _shortcut(inputs, width * self.expansion, stride)

    def forward(self, x: Tensor) -> Tensor:
        y = self.relu1(self.bn1(self.conv1(x)))
        y = self.relu2(self.bn2(self.conv2(y)))
        y = self.bn3(self.conv3(y))
        identity = x if self.downsample is None else self.downsample(x)
        out: Tensor = self.relu3(y + identity)
        return out


def _stage(block: type[_Basic | _Bottleneck], inputs: int, width: int, depth: int, stride: int) -> nn.Sequential:
    rest = [block(width * block.expansion, width, 1) for _ in range(depth - 1)]
    return nn.Sequential(block(inputs, width, stride), *rest)


class ResNet(nn.Module):
    """A stem and four stages of residual blocks, an average pooling and one fully-connected layer.

    Input ``(N, 3, 224, 224)``, output ``(N, classes)`` logits. He et al., *Deep residual learning for image
    recognition*, CVPR 2016 (https://arxiv.org/abs/1512.03385), table 1.
    """

    def __init__(
        self, block: type[_Basic | _Bottleneck], depths: tuple[int, int, int, int], classes: int = 1000
    ) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 64, 7, stride=2, padding=3, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        self.relu = nn.ReLU()
        self.maxpool = nn.MaxPool2d(3, stride=2, padding=1)
        wide = block.expansion
        self.layer1 = _stage(block, 64, 64, depths[0], 1)
        self.layer2 = _stage(block, 64 * wide, 128, depths[1], 2)
        self.layer3 = _stage(block, 128 * wide, 256, depths[2], 2)
        self.layer4 = _stage(block, 256 * wide, 512, depths[3], 2)
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.fc = nn.Linear(512 * wide, classes)

    def forward(self, x: Tensor) -> Tensor:
        """Map ``(N, 3, 224, 224)`` images to ``(N, classes)`` logits."""
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        logits: Tensor = self.fc(torch.flatten(self.avgpool(x), 1))
        return logits


class ResNet18(ResNet):
    """Eight basic blocks: table 1 of the paper, column "18-layer".

    Examples
    --------
    >>> ResNet18(classes=10).eval()(torch.zeros(1, 3, 224, 224)).shape
    torch.Size([1, 10])
    """

    def __init__(self, classes: int = 1000) -> None:
        super().__init__(_Basic, (2, 2, 2, 2), classes)


class ResNet50(ResNet):
    """Sixteen bottleneck blocks: table 1 of the paper, column "50-layer".

    Examples
    --------
    >>> ResNet50(classes=10).eval()(torch.zeros(1, 3, 224, 224)).shape
    torch.Size([1, 10])
    """

    def __init__(self, classes: int = 1000) -> None:
        super().__init__(_Bottleneck, (3, 4, 6, 3), classes)
