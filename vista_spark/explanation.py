"""Why did the CNN say that? Occlusion heat maps of one image, incrementally (Krypton, chapters 6 and 7)."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from optimizer.errors import nearest
from optimizer.patches import OcclusionGrid
from udfs.handlers import handler
from udfs.images import decode
from vista_spark import roster
from vista_spark.errors import InvalidArgumentError

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Mapping

    import torch
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from udfs.handlers.torch import TorchModel
    from udfs.preprocessing import Preprocessing
    from vista_spark.roster import ModelCard

__all__ = ["MODES", "Explanation", "explain"]

MODES = ("exact", "naive")

# Sums of probabilities differ from 1 by the rounding of their terms.
_ROUNDING = 1e-4


@dataclass(frozen=True)
class Explanation:
    """How much the probability of a class depends on each part of an image. Made by :func:`explain`.

    Attributes
    ----------
    heat_map : array of float32, of shape ``grid.shape``
        Probability of the target with the patch there; NaN where it has not been computed.
    grid : OcclusionGrid
    target, predicted : int
        The class that the heat map is of, and the one that the network predicts for the whole image.
    probability : float
        Of the target, for the whole image.
    mode : str
    theoretical_speed_up : float
        Of the exact mode over the naive one, by FLOPs.
    seconds : float
    image : array of uint8, of shape (height, width, 3)
        As the network sees it.
    """

    heat_map: NDArray[np.float32]
    grid: OcclusionGrid
    target: int
    predicted: int
    probability: float
    mode: str
    theoretical_speed_up: float
    seconds: float
    image: NDArray[np.uint8]

    def plot(self) -> Figure:
        """The heat map over the image: red where the prediction needs what is there.

        Colours go from 0.75 to 1.25 times the probability of the whole image, at most 1 (Krypton, section 6.5).
        """
        from udfs.figure import NotebookFigure  # noqa: PLC0415 - only who draws pays for matplotlib

        figure = NotebookFigure(figsize=(8.5, 4), layout="constrained")
        left, right = figure.subplots(1, 2)
        height, width = self.image.shape[:2]
        # A position stands for the middle of its patch.
        rows, columns = (self.grid.starts(axis) + self.grid.patch[axis] / 2 for axis in (0, 1))
        edges = [
            (*(values - step / 2), values[-1] + step / 2)
            for values, step in zip((rows, columns), self.grid.stride, strict=True)
        ]
        for axes in (left, right):
            axes.imshow(self.image, extent=(0, width, height, 0))
            axes.set_xticks([])
            axes.set_yticks([])
        shown = right.pcolormesh(
            edges[1], edges[0], self.heat_map, cmap="jet_r", alpha=0.6,
            vmin=0.75 * self.probability, vmax=min(1.0, 1.25 * self.probability),
        )  # fmt: skip
        left.set_title(f"class {self.predicted}")
        right.set_title(f"probability of class {self.target} ({self.probability:.2f}) without the patch", fontsize=9)
        figure.colorbar(shown, ax=right)
        return figure

    def explain(self) -> str:
        """What was computed, in words."""
        rows, extents = (" x ".join(map(str, numbers)) for numbers in (self.grid.shape, self.grid.patch))
        predicted = f" (predicted: class {self.predicted})" if self.predicted != self.target else ""
        lowest = f"lowest {np.nanmin(self.heat_map):.4f} without a patch of {extents}, of {rows} places"
        theory = f"theoretical speed-up of exact over naive: {self.theoretical_speed_up:.2f}"
        return (
            f"class {self.target} with probability {self.probability:.4f}{predicted}; {lowest}\n"
            f"{self.mode}: {self.seconds:.1f} s; {theory}"
        )


def explain(
    image: bytes | str | os.PathLike[str] | NDArray[np.float32],
    model: str | ModelCard,
    weights: str | os.PathLike[str] | Mapping[str, torch.Tensor] | None = None,
    *,
    target: int | None = None,
    patch_size: int = 16,
    stride: int = 4,
    patch_color: tuple[int, int, int] = (128, 128, 128),
    region: tuple[tuple[int, int], tuple[int, int]] | None = None,
    mode: str = "exact",
    image_size: int | None = None,
    batch_size: int = 32,
    on_update: Callable[[NDArray[np.float32]], object] | None = None,
    seed: int = 0,
) -> Explanation:
    """Lay a patch on every place of an image and see what the network makes of it (Krypton, equations 6.1 to 6.6).

    Parameters
    ----------
    image : bytes, path or array
        What :func:`udfs.images.decode` reads.
    model : str or ModelCard
        Of the roster; of PyTorch.
    weights : path, URI or mapping, optional
        As for :func:`vista_spark.roster.load`; random ones without.
    target : int, optional
        The class whose probability counts; the predicted one by default.
    patch_size, stride : int
        Of the patch, in pixels of the network's input. Default 16 and 4.
    patch_color : tuple of 3 int
        Of the patch, in RGB from 0 to 255; grey by default.
    region : tuple of two pairs of int, optional
        Rows and columns that the patch stays in, half-open; the whole image by default.
    mode : {"exact", "naive"}
        Whether only what the patch changes is computed, or the whole network for each place. The same heat map.
    image_size : int, optional
        Of the network's input; the model's own by default.
    batch_size : int
        Places at a time. Default 32.
    on_update : callable, optional
        Called with the heat map so far after each batch; what is not there yet is NaN.
    seed : int
        Of random weights.

    Returns
    -------
    Explanation

    Raises
    ------
    InvalidArgumentError
        A mode, class, colour or model that cannot be; a model of several outputs.
    optimizer.patches.PatchError
        A patch that does not fit, a region outside of the image.
    udfs.images.ImageError
        The image cannot be read.

    Examples
    --------
    >>> import numpy as np
    >>> picture = np.random.default_rng(0).normal(size=(3, 64, 64)).astype("float32")
    >>> found = explain(picture, "squeezenet1_1", image_size=64, patch_size=16, stride=24)
    >>> found.heat_map.shape
    (3, 3)
    """
    card = roster.card(model) if isinstance(model, str) else model
    if mode not in MODES:
        raise InvalidArgumentError(f"mode={mode!r}{nearest(mode, MODES)}; one of: {', '.join(MODES)}")
    if card.framework != "torch" or card.kind != "image":
        raise InvalidArgumentError(
            f"model {card.name!r} is one of {card.framework} for {card.kind}s: explanations are for images and PyTorch"
        )
    if len(patch_color) != 3 or not all(0 <= value <= 255 for value in patch_color):  # noqa: PLR2004 - RGB, 8 bits
        raise InvalidArgumentError(f"patch_color={patch_color!r}: three numbers from 0 to 255")
    preprocessing: Any = card.preprocessing if image_size is None else card.preprocessing.with_size(image_size)
    grid = OcclusionGrid((preprocessing.crop,) * 2, (patch_size,) * 2, (stride,) * 2, region)
    pixels = decode(image, preprocessing)

    import torch  # noqa: PLC0415 - an optional package

    from udfs.incremental import IncrementalNetwork  # noqa: PLC0415 - needs torch

    traced: Any = handler("torch").trace(roster.load(card, weights, seed=seed), list(preprocessing.inputs))
    network: TorchModel = traced.prepare(torch.get_num_threads())
    if len(network.graph.outputs) != 1:
        raise InvalidArgumentError(
            f"model {card.name!r} gives {', '.join(network.graph.outputs)}: an explanation is of one output"
        )
    incremental = IncrementalNetwork(network, grid)
    started = time.perf_counter()
    whole = torch.from_numpy(pixels)[None].contiguous(memory_format=torch.channels_last)
    views = incremental.materialise(whole)
    (output,) = network.graph.outputs
    scores = _probabilities(views.outputs[output])[0]
    predicted = int(scores.argmax())
    counted = predicted if target is None else target
    if not 0 <= counted < len(scores):
        raise InvalidArgumentError(f"target={target!r}: a class from 0 to {len(scores) - 1}")
    heat_map = np.full(grid.shape, np.nan, np.float32)
    fill = torch.from_numpy(_normalised(patch_color, preprocessing))
    results = (
        incremental.outputs(views, fill, batch_size=batch_size)
        if mode == "exact"
        else incremental.naive(whole, fill, batch_size=batch_size)
    )
    for places, outputs in results:
        heat_map[tuple(places.T)] = _probabilities(outputs[output])[:, counted].numpy()
        if on_update is not None:
            on_update(heat_map.copy())
    return Explanation(
        heat_map, grid, counted, predicted, float(scores[counted]), mode, incremental.patches.overall_speed_up,
        time.perf_counter() - started, _shown(pixels, preprocessing),
    )  # fmt: skip


def _probabilities(outputs: torch.Tensor) -> torch.Tensor:
    """Softmax, unless the network ends with one itself."""
    flat = outputs.detach().reshape(len(outputs), -1)
    sums = flat.sum(dim=1)
    if bool((flat >= 0).all()) and bool(((sums - 1).abs() < _ROUNDING).all()):
        return flat
    return flat.softmax(dim=1)


def _normalised(color: tuple[int, int, int], preprocessing: Preprocessing) -> NDArray[np.float32]:
    channels = color if preprocessing.channels == "RGB" else color[::-1]
    found = (np.array(channels) * preprocessing.scale - np.array(preprocessing.mean)) / np.array(preprocessing.std)
    normalised: NDArray[np.float32] = found.astype(np.float32)
    return normalised


def _shown(pixels: NDArray[np.float32], preprocessing: Preprocessing) -> NDArray[np.uint8]:
    """Pixels back from the network's input."""
    last = pixels.transpose(1, 2, 0) * np.array(preprocessing.std) + np.array(preprocessing.mean)
    picture: NDArray[np.uint8] = np.clip(np.rint(last / preprocessing.scale), 0, 255).astype(np.uint8)
    return picture if preprocessing.channels == "RGB" else picture[:, :, ::-1]
