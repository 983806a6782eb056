"""Inception v3."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import nn

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["InceptionV3"]


class _Convolution(nn.Module):
    """Convolution, batch normalisation, ReLU."""

    def __init__(
        self,
        inputs: int,
        outputs: int,
        kernel: int | tuple[int, int],
        stride: int = 1,
        padding: int | tuple[int, int] = 0,
    ) -> None:
        super().__init__()
        self.conv = nn.Conv2d(inputs, outputs, kernel, stride=stride, padding=padding, bias=False)
        self.bn = nn.BatchNorm2d(outputs, eps=0.001)
        self.relu = nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.relu(self.bn(self.conv(x)))
        return y


def _wide(inputs: int, outputs: int) -> _Convolution:
    return _Convolution(inputs, outputs, (1, 7), padding=(0, 3))


def _tall(inputs: int, outputs: int) -> _Convolution:
    return _Convolution(inputs, outputs, (7, 1), padding=(3, 0))


class _MixedA(nn.Module):
    """Figure 5 of the paper: 5x5 as two 3x3, on the 35x35 grid."""

    def __init__(self, inputs: int, pooled: int) -> None:
        super().__init__()
        self.branch1x1 = _Convolution(inputs, 64, 1)
        self.branch5x5_1 = _Convolution(inputs, 48, 1)
        self.branch5x5_2 = _Convolution(48, 64, 5, padding=2)
        self.branch3x3dbl_1 = _Convolution(inputs, 64, 1)
        self.branch3x3dbl_2 = _Convolution(64, 96, 3, padding=1)
        self.branch3x3dbl_3 = _Convolution(96, 96, 3, padding=1)
        self.pool = nn.AvgPool2d(3, stride=1, padding=1)
        self.branch_pool = _Convolution(inputs, pooled, 1)

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat(
            [
                self.branch1x1(x),
                self.branch5x5_2(self.branch5x5_1(x)),
                self.branch3x3dbl_3(self.branch3x3dbl_2(self.branch3x3dbl_1(x))),
                self.branch_pool(self.pool(x)),
            ],
            dim=1,
        )


class _MixedB(nn.Module):
    """Figure 10 of the paper: from the 35x35 grid to the 17x17."""

    def __init__(self, inputs: int) -> None:
        super().__init__()
        self.branch3x3 = _Convolution(inputs, 384, 3, stride=2)
        self.branch3x3dbl_1 = _Convolution(inputs, 64, 1)
        self.branch3x3dbl_2 = _Convolution(64, 96, 3, padding=1)
        self.branch3x3dbl_3 = _Convolution(96, 96, 3, stride=2)
        self.pool = nn.MaxPool2d(3, stride=2)

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat(
            [
                self.branch3x3(x),
                self.branch3x3dbl_3(self.branch3x3dbl_2(self.branch3x3dbl_1(x))),
                self.pool(x),
            ],
            dim=1,
        )


class _MixedC(nn.Module):
    """Figure 6 of the paper: 7x7 as 1x7 and 7x1, on the 17x17 grid."""

    def __init__(self, inputs: int, width: int) -> None:
        super().__init__()
        self.branch1x1 = _Convolution(inputs, 192, 1)
        self.branch7x7_1 = _Convolution(inputs, width, 1)
        self.branch7x7_2 = _wide(width, width)
        self.branch7x7_3 = _tall(width, 192)
        self.branch7x7dbl_1 = _Convolution(inputs, width, 1)
        self.branch7x7dbl_2 = _tall(width, width)
        self.branch7x7dbl_3 = _wide(width, width)
        self.branch7x7dbl_4 = _tall(width, width)
        self.branch7x7dbl_5 = _wide(width, 192)
        self.pool = nn.AvgPool2d(3, stride=1, padding=1)
        self.branch_pool = _Convolution(inputs, 192, 1)

    def forward(self, x: Tensor) -> Tensor:
        double = self.branch7x7dbl_3(self.branch7x7dbl_2(self.branch7x7dbl_1(x)))
        return torch.cat(
            [
                self.branch1x1(x),
                self.branch7x7_3(self.branch7x7_2(self.branch7x7_1(x))),
                self.branch7x7dbl_5(self.branch7x7dbl_4(double)),
                self.branch_pool(self.pool(x)),
            ],
            dim=1,
        )


class _MixedD(nn.Module):
    """Block from the 17x17 grid to the 8x8 grid."""

    def __init__(self, inputs: int) -> None:
        super().__init__()
        self.branch3x3_1 = _Convolution(inputs, 192, 1)
        self.branch3x3_2 = _Convolution(192, 320, 3, stride=2)
        self.branch7x7x3_1 = _Convolution(inputs, 192, 1)
        self.branch7x7x3_2 = _wide(192, 192)
        self.branch7x7x3_3 = _tall(192, 192)
        self.branch7x7x3_4 = _Convolution(192, 192, 3, stride=2)
        self.pool = nn.MaxPool2d(3, stride=2)

    def forward(self, x: Tensor) -> Tensor:
        seven = self.branch7x7x3_3(self.branch7x7x3_2(self.branch7x7x3_1(x)))
        return torch.cat([self.branch3x3_2(self.branch3x3_1(x)), self.branch7x7x3_4(seven), self.pool(x)], dim=1)


class _MixedE(nn.Module):
    """Figure 7 of the paper: the filter banks spread out, on the 8x8 grid."""

    def __init__(self, inputs: int) -> None:
        super().__init__()
        self.branch1x1 = _Convolution(inputs, 320, 1)
        self.branch3x3_1 = _Convolution(inputs, 384, 1)
        self.branch3x3_2a = _Convolution(384, 384, (1, 3), padding=(0, 1))
        self.branch3x3_2b = _Convolution(384, 384, (3, 1), padding=(1, 0))
        self.branch3x3dbl_1 = _Convolution(inputs, 448, 1)
        self.branch3x3dbl_2 = _Convolution(448, 384, 3, padding=1)
        self.branch3x3dbl_3a = _Convolution(384, 384, (1, 3), padding=(0, 1))
        self.branch3x3dbl_3b = _Convolution(384, 384, (3, 1), padding=(1, 0))
        self.pool = nn.AvgPool2d(3, stride=1, padding=1)
        self.branch_pool = _Convolution(inputs, 192, 1)

    def forward(self, x: Tensor) -> Tensor:
        single = self.branch3x3_1(x)
        double = self.branch3x3dbl_2(self.branch3x3dbl_1(x))
        return torch.cat(
            [
                self.branch1x1(x),
                self.branch3x3_2a(single),
                self.branch3x3_2b(single),
                self.branch3x3dbl_3a(double),
                self.branch3x3dbl_3b(double),
                self.branch_pool(self.pool(x)),
            ],
            dim=1,
        )


class _Auxiliary(nn.Module):
    """The side classifier of section 4: it holds keys that published weights carry, and inference never runs it."""

    def __init__(self, inputs: int, classes: int) -> None:
        super().__init__()
        self.conv0 = _Convolution(inputs, 128, 1)
        self.conv1 = _Convolution(128, 768, 5)
        self.fc = nn.Linear(768, classes)


class InceptionV3(nn.Module):
    """A stem of five convolutions, eleven inception blocks, an average pooling and one fully-connected layer.

    Input ``(N, 3, 299, 299)``, output ``(N, classes)`` logits, in training too: the auxiliary classifier is there for
    its keys (``AuxLogits.*``) and is not run. torchvision's pretrained network re-normalises its input
    (``transform_input=True``) from ImageNet's mean and deviation to 0.5 and 0.5; here the roster's preprocessing
    normalises by 0.5 and 0.5 in the first place, which is the same function of the pixel with one step less. Szegedy et
    al., *Rethinking the inception architecture for computer vision*, CVPR 2016 (https://arxiv.org/abs/1512.00567),
    section 6.

    Examples
    --------
    >>> InceptionV3(classes=10).eval()(torch.zeros(1, 3, 299, 299)).shape
    torch.Size([1, 10])
    """

    def __init__(self, classes: int = 1000) -> None:
        super().__init__()
        self.Conv2d_1a_3x3 = _Convolution(3, 32, 3, stride=2)
        self.Conv2d_2a_3x3 = _Convolution(32, 32, 3)
        self.Conv2d_2b_3x3 = _Convolution(32, 64, 3, padding=1)
        self.maxpool1 = nn.MaxPool2d(3, stride=2)
        self.Conv2d_3b_1x1 = _Convolution(64, 80, 1)
        self.Conv2d_4a_3x3 = _Convolution(80, 192, 3)
        self.maxpool2 = nn.MaxPool2d(3, stride=2)
        self.Mixed_5b = _MixedA(192, 32)
        self.Mixed_5c = _MixedA(256, 64)
        self.Mixed_5d = _MixedA(288, 64)
        self.Mixed_6a = _MixedB(288)
        self.Mixed_6b = _MixedC(768, 128)
        self.Mixed_6c = _MixedC(768, 160)
        self.Mixed_6d = _MixedC(768, 160)
        self.Mixed_6e = _MixedC(768, 192)
        self.AuxLogits = _Auxiliary(768, classes)
        self.Mixed_7a = _MixedD(768)
        self.Mixed_7b = _MixedE(1280)
        self.Mixed_7c = _MixedE(2048)
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.dropout = nn.Dropout()
        self.fc = nn.Linear(2048, classes)

    def forward(self, x: Tensor) -> Tensor:
        """Map ``(N, 3, 299, 299)`` images to ``(N, classes)`` logits."""
        x = self.Conv2d_2b_3x3(self.Conv2d_2a_3x3(self.Conv2d_1a_3x3(x)))
        x = self.Conv2d_4a_3x3(self.Conv2d_3b_1x1(self.maxpool1(x)))
        x = self.Mixed_5d(self.Mixed_5c(self.Mixed_5b(self.maxpool2(x))))
        x = self.Mixed_6c(self.Mixed_6b(self.Mixed_6a(x)))
        x = self.Mixed_6e(self.Mixed_6d(x))
        x = self.Mixed_7c(self.Mixed_7b(self.Mixed_7a(x)))
        logits: Tensor = self.fc(torch.flatten(self.dropout(self.avgpool(x)), 1))
        return logits
