"""Published weights of the shipped networks: by torchvision and by Keras, all trained on ImageNet-1k."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ["PUBLISHED", "UNPUBLISHED", "PublishedWeights"]


@dataclass(frozen=True, slots=True)
class PublishedWeights:
    """A file of weights as its publisher offers it.

    Attributes
    ----------
    url : str
        Its address.
    digest : str
        Digest that the publisher states: the beginning of a SHA-256 that torchvision puts into the name, the MD5
        that Keras checks; empty where it says nothing.
    algorithm : {"sha256", "md5"}
        Algorithm of the digest.
    """

    url: str
    digest: str
    algorithm: Literal["sha256", "md5"] = "sha256"

    @property
    def file(self) -> str:
        """The name of the file."""
        return self.url.rpartition("/")[2]


_TORCH = "https://download.pytorch.org/models"
_KERAS = "https://storage.googleapis.com/tensorflow/keras-applications"
_KERNELS = "weights_tf_dim_ordering_tf_kernels"


def _torch(name: str) -> PublishedWeights:
    return PublishedWeights(f"{_TORCH}/{name}.pth", name.rpartition("-")[2])


def _keras(path: str, digest: str) -> PublishedWeights:
    return PublishedWeights(f"{_KERAS}/{path}.h5", digest, "md5")


# torchvision's first set of each network (IMAGENET1K_V1), which its preprocessing in the roster belongs to.
PUBLISHED = {
    "alexnet": _torch("alexnet-owt-7be5be79"),
    "vgg16": _torch("vgg16-397923af"),
    "resnet18": _torch("resnet18-f37072fd"),
    "resnet50": _torch("resnet50-0676ba61"),
    "inception_v3": _torch("inception_v3_google-0cc3c7bd"),
    "mobilenet_v2": _torch("mobilenet_v2-b0353104"),
    "squeezenet1_1": _torch("squeezenet1_1-b8a52dc0"),
    "keras_vgg16": _keras(f"vgg16/vgg16_{_KERNELS}", "64373286793e3c8b2b4e3219cbf3544b"),
    "keras_resnet50": _keras(f"resnet/resnet50_{_KERNELS}", "2cb95161c43110f7111970584f804107"),
    "keras_inception_v3": _keras(f"inception_v3/inception_v3_{_KERNELS}", "9a0d58056eeedaa3f26cb7ebd46da564"),
    "keras_densenet121": _keras(f"densenet/densenet121_{_KERNELS}", "9d60b8095a5708f2dcce2bca79d332c7"),
    "keras_mobilenet_v2": _keras(f"mobilenet_v2/mobilenet_v2_{_KERNELS}_1.0_224", ""),
}
"""By the names of the roster."""

UNPUBLISHED = {
    # keras.applications adds a Rescaling layer behind the normalization only when it loads these weights itself:
    # without it they would give other numbers, in silence.
    "keras_efficientnet_b0": (
        "Keras's weights belong to a network with one layer more than the roster's: "
        'pass keras.applications.EfficientNetB0(weights="imagenet") itself as the model'
    ),
    "minilm_l6": (
        "it comes from a hub, with its tokenizer: roster.from_pretrained('sentence-transformers/all-MiniLM-L6-v2'), "
        "or --model sentence-transformers/all-MiniLM-L6-v2"
    ),
    **{
        f"compact_{name}": "its authors published no weights: train it, and name the file of its state dict as weights"
        for name in ("o1", "o2", "s1", "s2", "f1", "f2")
    },
}
"""Networks of the roster that none are fetched for, and what to do instead."""
