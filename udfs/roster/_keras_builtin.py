"""Cards of the networks of ``keras.applications``; Keras is imported only when one is built."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from udfs.images import Preprocessing
from udfs.roster._card import FeatureLayer, ModelCard
from udfs.roster._class_names import IMAGENET

__all__ = ["KERAS_BUILT_IN", "KerasBuilder"]


@dataclass(frozen=True, slots=True)
class KerasBuilder:
    """Builder of a network of ``keras.applications``, by its name: a value that can be compared and pickled."""

    network: str

    def __call__(self, input_shape: tuple[int, int, int]) -> Any:
        from keras import applications  # heavy

        from udfs.roster._keras_initialise import initialise  # imports Keras

        network = getattr(applications, self.network)
        # Logits, as from the torch networks; the layer is called "predictions" with and without softmax.
        return initialise(network(weights=None, classifier_activation=None, input_shape=input_shape))


# The three modes of keras.applications.imagenet_utils, and none for a network that has its own first layers for it.
_CAFFE = Preprocessing(
    crop=224, resize=256, mean=(103.939, 116.779, 123.68), std=(1, 1, 1), scale=1, channels="BGR", layout="NHWC"
)
_TF = Preprocessing(crop=224, resize=256, mean=(1, 1, 1), std=(1, 1, 1), scale=1 / 127.5, layout="NHWC")
_TORCH = Preprocessing(crop=224, resize=256, layout="NHWC")
_NONE = Preprocessing(crop=224, resize=256, mean=(0, 0, 0), std=(1, 1, 1), scale=1, layout="NHWC")


def _layers(**layers: str) -> tuple[FeatureLayer, ...]:
    return tuple(FeatureLayer(name, layer) for name, layer in layers.items())


def _vgg16() -> tuple[FeatureLayer, ...]:
    layers: list[FeatureLayer] = []
    for stage, depth in enumerate((2, 2, 3, 3, 3), start=1):
        layers += [FeatureLayer(f"conv{stage}_{i}", f"block{stage}_conv{i}") for i in range(1, depth + 1)]
        layers.append(FeatureLayer(f"pool{stage}", f"block{stage}_pool"))
    return (*layers, *_layers(fc6="fc1", fc7="fc2", fc8="predictions"))


def _resnet50() -> tuple[FeatureLayer, ...]:
    blocks = [
        FeatureLayer(f"conv{stage}_{block}", f"conv{stage}_block{block}_out")
        for stage, depth in enumerate((3, 4, 6, 3), start=2)
        for block in range(1, depth + 1)
    ]
    return (*_layers(conv1="conv1_relu"), *blocks, *_layers(pool5="avg_pool", fc6="predictions"))


# Where a block of MobileNetV2 has a shortcut, its output is the sum.
_SUMS = frozenset((2, 4, 5, 7, 8, 9, 11, 12, 14, 15))


def _mobilenet_v2() -> tuple[FeatureLayer, ...]:
    blocks = [
        FeatureLayer(f"block{block + 1}", f"block_{block}_{'add' if block in _SUMS else 'project_BN'}")
        for block in range(1, 17)
    ]
    top = _layers(conv18="out_relu", pool="global_average_pooling2d", fc="predictions")
    return (*_layers(conv1="Conv1_relu", block1="expanded_conv_project_BN"), *blocks, *top)


def _efficientnet_b0() -> tuple[FeatureLayer, ...]:
    blocks = [
        FeatureLayer(f"block{stage}{letter}", f"block{stage}{letter}_{'project_bn' if letter == 'a' else 'add'}")
        for stage, depth in enumerate((1, 2, 2, 3, 3, 4, 1), start=1)
        for letter in "abcd"[:depth]
    ]
    return (
        *_layers(stem="stem_activation"),
        *blocks,
        *_layers(top="top_activation", pool="avg_pool", fc="predictions"),
    )


_INCEPTION_BLOCKS = ("5b", "5c", "5d", "6a", "6b", "6c", "6d", "6e", "7a", "7b", "7c")
_INCEPTION_STEM = {
    "conv1a": "activation",
    "conv2a": "activation_1",
    "conv2b": "activation_2",
    "conv3b": "activation_3",
    "conv4a": "activation_4",
}

KERAS_BUILT_IN: dict[str, ModelCard] = {
    card.name: replace(card, framework="keras", class_names=IMAGENET)
    for card in (
        ModelCard(
            name="keras_vgg16",
            builder=KerasBuilder("VGG16"),
            preprocessing=_CAFFE,
            layers=_vgg16(),
            parameters=138_357_544,
            reference="Simonyan, Zisserman, Very deep convolutional networks for large-scale image recognition, 2015",
        ),
        ModelCard(
            name="keras_resnet50",
            builder=KerasBuilder("ResNet50"),
            preprocessing=_CAFFE,
            layers=_resnet50(),
            parameters=25_636_712,
            reference="He et al., Deep residual learning for image recognition, CVPR 2016",
        ),
        ModelCard(
            name="keras_inception_v3",
            builder=KerasBuilder("InceptionV3"),
            preprocessing=_TF.with_size(299),
            layers=(
                *_layers(**_INCEPTION_STEM),
                *(FeatureLayer(f"mixed_{block}", f"mixed{i}") for i, block in enumerate(_INCEPTION_BLOCKS)),
                *_layers(pool="avg_pool", fc="predictions"),
            ),
            parameters=23_851_784,
            reference="Szegedy et al., Rethinking the inception architecture for computer vision, CVPR 2016",
        ),
        ModelCard(
            name="keras_densenet121",
            builder=KerasBuilder("DenseNet121"),
            preprocessing=_TORCH,
            layers=_layers(
                conv1="conv1_relu",
                pool1="pool1",
                dense1="conv2_block6_concat",
                transition1="pool2_pool",
                dense2="conv3_block12_concat",
                transition2="pool3_pool",
                dense3="conv4_block24_concat",
                transition3="pool4_pool",
                dense4="relu",
                pool="avg_pool",
                fc="predictions",
            ),
            parameters=8_062_504,
            reference="Huang et al., Densely connected convolutional networks, CVPR 2017",
        ),
        ModelCard(
            name="keras_mobilenet_v2",
            builder=KerasBuilder("MobileNetV2"),
            preprocessing=_TF,
            layers=_mobilenet_v2(),
            parameters=3_538_984,
            reference="Sandler et al., MobileNetV2: inverted residuals and linear bottlenecks, CVPR 2018",
        ),
        ModelCard(
            name="keras_efficientnet_b0",
            builder=KerasBuilder("EfficientNetB0"),
            preprocessing=_NONE,
            layers=_efficientnet_b0(),
            parameters=5_330_571,
            reference="Tan, Le, EfficientNet: rethinking model scaling for convolutional neural networks, ICML 2019",
        ),
    )
}
"""Cards by name, oldest paper first."""
