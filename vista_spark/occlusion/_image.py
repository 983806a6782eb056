"""Why did the CNN say that? Occlusion heat maps of one image, incrementally (Krypton, chapters 6 and 7)."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from udfs.driver import task_slots
from udfs.handlers import handler
from udfs.images import decode
from udfs.occlusion import TargetError
from vista_spark import roster
from vista_spark.errors import InvalidArgumentError
from vista_spark.network import network
from vista_spark.occlusion._base import Explained
from vista_spark.occlusion._checks import check_explainable, check_occlusion, cost_model, first_step, occlusion_of
from vista_spark.occlusion._cluster import Spread

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import torch
    from matplotlib.axes import Axes
    from matplotlib.collections import QuadMesh
    from matplotlib.figure import Figure
    from numpy.typing import NDArray
    from pyspark.sql import SparkSession

    from udfs.images import Preprocessing
    from udfs.occlusion import Occlusion
    from vista_spark.network import Network
    from vista_spark.roster import ModelCard

__all__ = ["Explanation", "explain", "explain_sizes"]

# Jobs of a heat map that somebody watches, where a cluster computes it.
_ROUNDS = 4


@dataclass(frozen=True)
class Explanation(Explained):
    """How much the probability of a class depends on each part of an image. Made by :func:`explain`.

    Attributes
    ----------
    heat_map : array of float32, of shape ``grid.shape``
        Probability of the target with the patch there, or the network's value where it gives a single one; NaN where
        it has not been computed.
    grid : OcclusionGrid
    target, predicted : int
        The class that the heat map is of, and the one that the network predicts for the whole image.
    probability : float
        Of the target, for the whole image.
    mode : str
    theoretical_speed_up : float
        Of a place over the naive mode's, by FLOPs.
    seconds : float
    image : array of uint8, of shape (height, width, 3)
        As the network sees it.
    """

    image: NDArray[np.uint8]

    def plot(self) -> Figure:
        """The heat map over the image: red where the prediction needs what is there.

        Colours go from 0.75 to 1.25 times the probability of the whole image, at most 1 (Krypton, section 6.5).
        """
        from udfs.driver.figure import NotebookFigure  # noqa: PLC0415 - only who draws pays for matplotlib

        figure = NotebookFigure(figsize=(8.5, 4), layout="constrained")
        left, right = figure.subplots(1, 2)
        left.imshow(self.image)
        left.set_axis_off()
        left.set_title(f"class {self.predicted}")
        shown = self.draw(right)
        right.set_title(f"probability of class {self.target} ({self.probability:.2f}) without the patch", fontsize=9)
        figure.colorbar(shown, ax=right)
        return figure

    def draw(self, axes: Axes) -> QuadMesh:
        """The heat map over the image, on axes of one's own; what is returned is for a colour bar.

        Parameters
        ----------
        axes : matplotlib.axes.Axes
        """
        height, width = self.image.shape[:2]
        # A position stands for the middle of its patch.
        rows, columns = (self.grid.starts(axis) + self.grid.patch[axis] / 2 for axis in (0, 1))
        edges = [
            (*(values - step / 2), values[-1] + step / 2)
            for values, step in zip((rows, columns), self.grid.stride, strict=True)
        ]
        axes.imshow(self.image, extent=(0, width, height, 0))
        axes.set_axis_off()
        return axes.pcolormesh(
            edges[1], edges[0], self.heat_map, cmap="jet_r", alpha=0.6,
            vmin=0.75 * self.probability, vmax=min(1.0, 1.25 * self.probability),
        )  # fmt: skip


def explain(
    image: bytes | str | os.PathLike[str] | NDArray[np.float32],
    model: str | ModelCard,
    weights: str | os.PathLike[str] | Mapping[str, torch.Tensor] | None = None,
    *,
    target: int | None = None,
    patch_size: int = 16,
    stride: int = 4,
    perturbation: str = "color",
    patch_color: tuple[int, int, int] = (128, 128, 128),
    region: tuple[tuple[int, int], tuple[int, int]] | None = None,
    mode: str = "exact",
    tau: float = 0.8,
    target_speed_up: float = 3.0,
    drill_down_fraction: float = 0.25,
    precision: str = "float32",
    image_size: int | None = None,
    batch_size: int = 32,
    on_update: Callable[[NDArray[np.float32]], object] | None = None,
    on_estimate: Callable[[float], object] | None = None,
    seed: int = 0,
    spark: SparkSession | None = None,
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
        Of the patch, in pixels of the network's input. Default 16 and 4; the stride is at most the patch.
    perturbation : {"color", "mean", "blur"}
        What the patch has: `patch_color` (default); the mean of the image; or the image blurred, each pixel the mean of
        as large a neighbourhood as the patch.
    patch_color : tuple of 3 int
        Of a patch of one colour, in RGB from 0 to 255; grey by default.
    region : tuple of two pairs of int, optional
        Rows and columns that the patch stays in, half-open; the whole image by default.
    mode : {"exact", "approximate", "naive"}
        Whether only what the patch changes is computed, or the whole network for each place: the same heat map. Or
        nearly the same, much sooner: by `tau` and drill-down.
    tau : float
        In the approximate mode: at most this fraction of a tensor's height and width is kept up to date around a
        patch (projective field thresholding, section 6.4.1). Default 0.8. What it takes for a wanted likeness,
        :class:`vista_spark.OcclusionExplainer` learns from a sample.
    target_speed_up : float
        In the approximate mode: by drill-down, which gives the first stage's stride (section 6.4.3), rounded up to a
        multiple of `stride`. Default 3; 1 is without drill-down.
    drill_down_fraction : float
        Of the heat map, in the second stage. Default 0.25.
    precision : {"float32", "bfloat16"}
        In the approximate mode: ``"bfloat16"`` takes about half the time where the processor or accelerator has
        instructions for it, and longer on others. The network's last layer stays in float32. Default ``"float32"``.
    image_size : int, optional
        Of the network's input; the model's own by default.
    batch_size : int
        Places at a time. Default 32.
    on_update : callable, optional
        Called with the heat map so far after each batch; what is not there yet is NaN.
    on_estimate : callable, optional
        Called before the first place with the seconds that all will take, by a line fitted to what a few batches took
        on this machine; remembered in the node's cache folder for this network, patch and mode.
    seed : int
        Of random weights.
    spark : SparkSession, optional
        Spreads the places over the session's tasks, as many as run at a time; without it, this process computes them.
        Weights are a file then, which the workers read. `on_update` is called a few times.

    Returns
    -------
    Explanation

    Raises
    ------
    InvalidArgumentError
        A mode, class, colour, stride or model that cannot be; a model of several outputs; with `spark`, weights that
        are no file.
    optimizer.occlusion.PatchError
        A patch that does not fit, a region outside of the image, a tau that is no fraction.
    udfs.images.ImageError
        The image cannot be read.

    Examples
    --------
    >>> import numpy as np
    >>> picture = np.random.default_rng(0).normal(size=(3, 64, 64)).astype("float32")
    >>> found = explain(picture, "squeezenet1_1", image_size=64, patch_size=16, stride=16)
    >>> found.heat_map.shape
    (4, 4)
    """
    (found,) = _explanations(
        image, model, weights, (patch_size,), target, stride=stride, perturbation=perturbation, region=region,
        patch_color=patch_color, mode=mode, tau=tau, target_speed_up=target_speed_up, image_size=image_size,
        drill_down_fraction=drill_down_fraction, precision=precision, batch_size=batch_size, on_update=on_update,
        on_estimate=on_estimate, seed=seed, spark=spark,
    )  # fmt: skip
    return found


def explain_sizes(
    image: bytes | str | os.PathLike[str] | NDArray[np.float32],
    model: str | ModelCard,
    weights: str | os.PathLike[str] | Mapping[str, torch.Tensor] | None = None,
    *,
    patch_sizes: Sequence[int] = (8, 16, 32),
    target: int | None = None,
    stride: int = 8,
    perturbation: str = "color",
    patch_color: tuple[int, int, int] = (128, 128, 128),
    region: tuple[tuple[int, int], tuple[int, int]] | None = None,
    mode: str = "exact",
    tau: float = 0.8,
    target_speed_up: float = 3.0,
    drill_down_fraction: float = 0.25,
    precision: str = "float32",
    image_size: int | None = None,
    batch_size: int = 32,
    seed: int = 0,
) -> tuple[Explanation, ...]:
    """The heat maps of several sizes of the patch: the network is opened once, and its views are made once for all.

    A small patch finds a detail, and misses what the network has seen twice; a large one does not say where. What
    counts at every size is seldom an accident of the patch.

    Parameters
    ----------
    image, model, weights, target, perturbation, patch_color, region, mode, tau, target_speed_up, drill_down_fraction, \
    precision, image_size, batch_size, seed
        As for :func:`explain`.
    patch_sizes : sequence of int
        Default 8, 16 and 32.
    stride : int
        At most the smallest patch. Default 8.

    Returns
    -------
    tuple of Explanation
        In the order of the sizes.

    Raises
    ------
    InvalidArgumentError, optimizer.occlusion.PatchError, udfs.images.ImageError
        As :func:`explain`; without a size.

    Examples
    --------
    >>> import numpy as np
    >>> picture = np.random.default_rng(0).normal(size=(3, 64, 64)).astype("float32")
    >>> found = explain_sizes(picture, "squeezenet1_1", image_size=64, patch_sizes=(16, 32), stride=16)
    >>> [one.heat_map.shape for one in found]
    [(4, 4), (3, 3)]
    """
    if not patch_sizes:
        raise InvalidArgumentError("patch_sizes=(): no size of a patch")
    return _explanations(
        image, model, weights, patch_sizes, target, stride=stride, perturbation=perturbation, region=region,
        patch_color=patch_color, mode=mode, tau=tau, target_speed_up=target_speed_up, image_size=image_size,
        drill_down_fraction=drill_down_fraction, precision=precision, batch_size=batch_size, seed=seed,
    )  # fmt: skip


def _explanations(
    image: bytes | str | os.PathLike[str] | NDArray[np.float32],
    model: str | ModelCard,
    weights: str | os.PathLike[str] | Mapping[str, torch.Tensor] | None,
    patch_sizes: Sequence[int],
    target: int | None,
    *,
    tau: float,
    target_speed_up: float,
    drill_down_fraction: float,
    image_size: int | None,
    batch_size: int,
    seed: int,
    on_update: Callable[[NDArray[np.float32]], object] | None = None,
    on_estimate: Callable[[float], object] | None = None,
    spark: SparkSession | None = None,
    **options: Any,
) -> tuple[Explanation, ...]:
    card = roster.card(model) if isinstance(model, str) else model
    check_explainable(card)
    preprocessing: Any = card.preprocessing if image_size is None else card.preprocessing.with_size(image_size)
    for patch_size in patch_sizes:
        check_occlusion(preprocessing, patch_size=patch_size, **options)
    pixels = decode(image, preprocessing)

    import torch  # noqa: PLC0415 - an optional package

    from udfs.occlusion.occluder import Occluder  # noqa: PLC0415 - needs torch

    spreading: Callable[[Occlusion], Spread] | None = None
    if spark is None:
        traced: Any = handler("torch").trace(roster.load(card, weights, seed=seed), list(preprocessing.inputs))
    else:
        net = _network(card, weights, seed, image_size)
        traced = net.traced
    occlusions = [
        occlusion_of(traced, preprocessing, batch_size=batch_size, patch_size=size, **options) for size in patch_sizes
    ]
    if options["mode"] == "approximate":
        occlusions = [
            replace(
                one, tau=tau, fraction=drill_down_fraction,
                step=first_step(one.grid, target_speed_up, drill_down_fraction),
            )
            for one in occlusions
        ]  # fmt: skip
    where: tuple[object, ...] = (torch.get_num_threads(),)
    if spark is not None:
        slots, rounds = task_slots(spark), 1 if on_update is None else _ROUNDS
        where = (spark.conf.get("spark.master", ""), slots, rounds)
        spreading = partial(Spread, spark, net.shipped(spark).source, slots=slots, rounds=rounds)
    ready = traced.prepare(torch.get_num_threads())
    opened, found = None, []
    for occlusion in occlusions:
        occluder, spread = Occluder(ready, occlusion), spreading and spreading(occlusion)
        if on_estimate is not None:
            key = (card.name, preprocessing.size, occlusion, *where)
            on_estimate(cost_model((spread or occluder).cost_model, key).seconds(occluder.places))
        started = time.perf_counter()
        opened = opened or occluder.opened(pixels)
        try:
            heat = occluder.heat_map(opened, target, on_update, spread)
        except TargetError as error:
            raise InvalidArgumentError(f"target={target!r}: {error}") from None
        explanation = Explanation(
            heat.values, occlusion.grid, heat.target, heat.predicted, heat.probability, options["mode"],
            occluder.patches.overall_speed_up, time.perf_counter() - started, _shown(pixels, preprocessing),
        )  # fmt: skip
        found.append(explanation)
    return tuple(found)


def _network(card: ModelCard, weights: object, seed: int, image_size: int | None) -> Network:
    if weights is not None and not isinstance(weights, str | os.PathLike):
        raise InvalidArgumentError(
            f"weights of type {type(weights).__name__}: with spark, workers read them from a file; save them, and pass "
            "its path or URI"
        )
    return network(card, None if weights is None else os.fspath(weights), seed, image_size)


def _shown(pixels: NDArray[np.float32], preprocessing: Preprocessing) -> NDArray[np.uint8]:
    """Pixels back from the network's input."""
    last = pixels.transpose(1, 2, 0) * np.array(preprocessing.std) + np.array(preprocessing.mean)
    picture: NDArray[np.uint8] = np.clip(np.rint(last / preprocessing.scale), 0, 255).astype(np.uint8)
    return picture if preprocessing.channels == "RGB" else picture[:, :, ::-1]
