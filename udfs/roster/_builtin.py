"""Cards of the seven torch networks that ship; torch is imported only when one is built."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from udfs.images import Preprocessing
from udfs.roster._card import FeatureLayer, ModelCard
from udfs.roster._class_names import IMAGENET

if TYPE_CHECKING:
    from torch import nn

__all__ = ["BUILT_IN", "TorchBuilder"]

_IMAGENET = Preprocessing(crop=224, resize=256)


@dataclass(frozen=True, slots=True)
class TorchBuilder:
    """Builder of a torch network of the roster: a value that can be compared and pickled, unlike a lambda.

    ``module`` is the module of the network's class; saved stages of earlier versions have it.
    """

    module: str
    network: str

    def __call__(self) -> nn.Module:
        from udfs.roster._initialise import initialise  # imports torch
        from udfs.roster._torch_networks import TORCH_NETWORKS  # imports torch

        return initialise(TORCH_NETWORKS[self.network]())


def _layers(**modules: str) -> tuple[FeatureLayer, ...]:
    return tuple(FeatureLayer(name, module) for name, module in modules.items())


def _vgg16() -> tuple[FeatureLayer, ...]:
    layers = []
    index = 0
    for stage, depth in enumerate((2, 2, 3, 3, 3), start=1):
        for convolution in range(1, depth + 1):
            layers.append(FeatureLayer(f"conv{stage}_{convolution}", f"features.{index + 1}"))
            index += 2
        layers.append(FeatureLayer(f"pool{stage}", f"features.{index}"))
        index += 1
    return (*layers, *_layers(fc6="classifier.1", fc7="classifier.4", fc8="classifier.6"))


def _resnet(depths: tuple[int, ...]) -> tuple[FeatureLayer, ...]:
    blocks = [
        FeatureLayer(f"conv{stage + 1}_{block + 1}", f"layer{stage}.{block}")
        for stage, depth in enumerate(depths, start=1)
        for block in range(depth)
    ]
    return (*_layers(conv1="relu"), *blocks, *_layers(pool5="avgpool", fc6="fc"))


_INCEPTION_BLOCKS = ("5b", "5c", "5d", "6a", "6b", "6c", "6d", "6e", "7a", "7b", "7c")

BUILT_IN: dict[str, ModelCard] = {
    card.name: replace(card, class_names=IMAGENET)
    for card in (
        ModelCard(
            name="alexnet",
            builder=TorchBuilder("_alexnet", "AlexNet"),
            preprocessing=_IMAGENET,
            layers=_layers(
                conv1="features.1",
                conv2="features.4",
                conv3="features.7",
                conv4="features.9",
                conv5="features.11",
                fc6="classifier.2",
                fc7="classifier.5",
                fc8="classifier.6",
            ),
            parameters=61_100_840,
            reference="Krizhevsky, One weird trick for parallelizing convolutional neural networks, arXiv:1404.5997",
        ),
        ModelCard(
            name="vgg16",
            builder=TorchBuilder("_vgg", "VGG16"),
            preprocessing=_IMAGENET,
            layers=_vgg16(),
            parameters=138_357_544,
            reference="Simonyan, Zisserman, Very deep convolutional networks for large-scale image recognition, 2015",
        ),
        ModelCard(
            name="resnet18",
            builder=TorchBuilder("_resnet", "ResNet18"),
            preprocessing=_IMAGENET,
            layers=_resnet((2, 2, 2, 2)),
            parameters=11_689_512,
            reference="He et al., Deep residual learning for image recognition, CVPR 2016",
        ),
        ModelCard(
            name="resnet50",
            builder=TorchBuilder("_resnet", "ResNet50"),
            preprocessing=_IMAGENET,
            layers=_resnet((3, 4, 6, 3)),
            parameters=25_557_032,
            reference="He et al., Deep residual learning for image recognition, CVPR 2016",
        ),
        ModelCard(
            name="inception_v3",
            builder=TorchBuilder("_inception", "InceptionV3"),
            preprocessing=Preprocessing(crop=299, resize=342, mean=(0.5, 0.5, 0.5), std=(0.5, 0.5, 0.5)),
            layers=(
                *_layers(
                    conv1a="Conv2d_1a_3x3",
                    conv2a="Conv2d_2a_3x3",
                    conv2b="Conv2d_2b_3x3",
                    conv3b="Conv2d_3b_1x1",
                    conv4a="Conv2d_4a_3x3",
                ),
                *(FeatureLayer(f"mixed_{block}", f"Mixed_{block}") for block in _INCEPTION_BLOCKS),
                *_layers(pool="avgpool", fc="fc"),
            ),
            parameters=27_161_264,
            reference="Szegedy et al., Rethinking the inception architecture for computer vision, CVPR 2016",
        ),
        ModelCard(
            name="mobilenet_v2",
            builder=TorchBuilder("_mobilenet", "MobileNetV2"),
            preprocessing=_IMAGENET,
            layers=(
                *_layers(conv1="features.0"),
                *(FeatureLayer(f"block{block}", f"features.{block}") for block in range(1, 18)),
                *_layers(conv18="features.18", pool="pool", fc="classifier.1"),
            ),
            parameters=3_504_872,
            reference="Sandler et al., MobileNetV2: inverted residuals and linear bottlenecks, CVPR 2018",
        ),
        ModelCard(
            name="squeezenet1_1",
            builder=TorchBuilder("_squeezenet", "SqueezeNet"),
            preprocessing=_IMAGENET,
            layers=_layers(
                conv1="features.1",
                fire2="features.3",
                fire3="features.4",
                fire4="features.6",
                fire5="features.7",
                fire6="features.9",
                fire7="features.10",
                fire8="features.11",
                fire9="features.12",
                conv10="classifier.2",
                pool10="classifier.3",
            ),
            parameters=1_235_496,
            reference="Iandola et al., SqueezeNet: AlexNet-level accuracy with 50x fewer parameters, arXiv:1602.07360",
        ),
    )
}
"""Cards by name, oldest paper first."""
