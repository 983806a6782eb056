"""Constructors of the roster's torch networks by name; this module imports torch."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from udfs.roster._alexnet import AlexNet
from udfs.roster._compact import COMPACT_SHAPES, CompactNetwork
from udfs.roster._inception import InceptionV3
from udfs.roster._mobilenet import MobileNetV2
from udfs.roster._resnet import ResNet18, ResNet50
from udfs.roster._squeezenet import SqueezeNet
from udfs.roster._vgg import VGG16

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import nn

__all__ = ["TORCH_NETWORKS"]

TORCH_NETWORKS: dict[str, Callable[[], nn.Module]] = {
    **{kind.__name__: kind for kind in (AlexNet, InceptionV3, MobileNetV2, ResNet18, ResNet50, SqueezeNet, VGG16)},
    **{shape: partial(CompactNetwork, shape) for shape in COMPACT_SHAPES},
}
