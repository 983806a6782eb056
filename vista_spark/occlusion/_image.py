"""Occlusion heat maps of one image, computed incrementally (Krypton, chapters 6 and 7)."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from udfs.driver import hint_keywords, task_slots
from udfs.handlers import framework
from udfs.images import decode
from udfs.occlusion import TargetError, open_occluder
from vista_spark import roster
from vista_spark.errors import InvalidArgumentError
from vista_spark.network import network, warn_of_random_weights
from vista_spark.occlusion._base import Explained
from vista_spark.occlusion._checks import check_explainable
from vista_spark.occlusion._cluster import Spread
from vista_spark.occlusion._cost import cost_model
from vista_spark.occlusion._options import OcclusionOptions, color_fill
from vista_spark.occlusion._picture import draw_over_image, plot_image

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

__all__ = ["Explanation", "explain_image", "explain_image_sizes"]

# Jobs of a heat map with an on_update, where a cluster computes it.
_ROUNDS = 4


@dataclass(frozen=True)
class Explanation(Explained):
    """How much the probability of a class depends on each part of an image. Made by :func:`explain_image`.

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
        """Draw the heat map over the image: red where the prediction needs what is there.

        Colours go from 0.75 to 1.25 times the probability of the whole image, at most 1 (Krypton, section 6.5).
        """
        return plot_image(self, self.image)

    def draw(self, axes: Axes) -> QuadMesh:
        """Draw the heat map over the image on the caller's axes; the mesh returned is for a colour bar.

        Parameters
        ----------
        axes : matplotlib.axes.Axes
        """
        return draw_over_image(self, self.image, axes)


@hint_keywords
def explain_image(  # noqa: PLR0913 - every option by its name
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
    """Lay a patch on every place of an image and see what the network predicts then (Krypton, equations 6.1 to 6.6).

    Parameters
    ----------
    image : bytes, path or array
        As :func:`udfs.images.decode` reads it.
    model : str or ModelCard
        Of the roster; of PyTorch.
    weights : path, URI or mapping, optional
        As for :func:`vista_spark.roster.load`. Without them the network is random, and a ``RandomWeightsWarning`` says
        so.
    target : int, optional
        The class whose probability counts; the predicted one by default.
    patch_size, stride : int
        Of the patch, in pixels of the network's input. Default 16 and 4; the stride is at most the patch.
    perturbation : {"color", "mean", "blur"}
        What the patch holds: `patch_color` (default); the mean of the image; or the image blurred, each pixel the mean
        of as large a neighbourhood as the patch.
    patch_color : tuple of 3 int
        Of a patch of one colour, in RGB from 0 to 255; grey by default.
    region : tuple of two pairs of int, optional
        Rows and columns that the patch stays in, half-open; the whole image by default.
    mode : {"exact", "approximate", "naive"}
        ``"exact"`` computes only what the patch changes, ``"naive"`` the whole network for each place: the same heat
        map. ``"approximate"`` gives nearly the same, much sooner, by `tau` and drill-down.
    tau : float
        In the approximate mode: at most this fraction of a tensor's height and width is kept up to date around a
        patch (projective field thresholding, section 6.4.1). Default 0.8. :class:`vista_spark.OcclusionExplainer`
        learns from a sample which one a wanted similarity takes.
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
        Called after each batch with the heat map so far; places that are not computed yet are NaN.
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
        An unknown mode, perturbation or precision; a class, colour or stride that does not do; a model of several
        outputs; with `spark`, weights that are not a file.
    optimizer.occlusion.PatchError
        A patch that does not fit, a region outside of the image, a tau that is no fraction.
    udfs.images.ImageError
        The image cannot be read.

    Examples
    --------
    >>> import numpy as np
    >>> picture = np.random.default_rng(0).normal(size=(3, 64, 64)).astype("float32")
    >>> explanation = explain_image(picture, "squeezenet1_1", image_size=64, patch_size=16, stride=16)
    >>> explanation.heat_map.shape
    (4, 4)
    """
    options = OcclusionOptions(
        patch=(patch_size,) * 2,
        stride=(stride,) * 2,
        region=region,
        perturbation=perturbation,
        mode=mode,
        tau=tau,
        target_speed_up=target_speed_up,
        drill_down_fraction=drill_down_fraction,
        precision=precision,
        batch_size=batch_size,
    )
    question = _Question(
        image=image,
        model=model,
        weights=weights,
        target=target,
        patch_color=patch_color,
        image_size=image_size,
        seed=seed,
        on_update=on_update,
        on_estimate=on_estimate,
        spark=spark,
    )
    (explanation,) = _answers(question, [options])
    return explanation


@hint_keywords
def explain_image_sizes(  # noqa: PLR0913 - every option by its name
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
    """Explain an image by patches of several sizes; the network is opened once, and its views are made once for all.

    A small patch finds a detail, and misses what the network sees twice; a large one does not say where. A part that
    counts at every size is seldom an accident of the patch.

    Parameters
    ----------
    image, model, weights, target, perturbation, patch_color, region, mode, tau, target_speed_up, drill_down_fraction, \
    precision, image_size, batch_size, seed
        As for :func:`explain_image`.
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
        As :func:`explain_image`; without a size.

    Examples
    --------
    >>> import numpy as np
    >>> picture = np.random.default_rng(0).normal(size=(3, 64, 64)).astype("float32")
    >>> explanations = explain_image_sizes(picture, "squeezenet1_1", image_size=64, patch_sizes=(16, 32), stride=16)
    >>> [each.heat_map.shape for each in explanations]
    [(4, 4), (3, 3)]
    """
    if not patch_sizes:
        raise InvalidArgumentError("patch_sizes=(): no size of a patch")
    options = [
        OcclusionOptions(
            patch=(patch_size,) * 2,
            stride=(stride,) * 2,
            region=region,
            perturbation=perturbation,
            mode=mode,
            tau=tau,
            target_speed_up=target_speed_up,
            drill_down_fraction=drill_down_fraction,
            precision=precision,
            batch_size=batch_size,
        )
        for patch_size in patch_sizes
    ]
    question = _Question(
        image=image,
        model=model,
        weights=weights,
        target=target,
        patch_color=patch_color,
        image_size=image_size,
        seed=seed,
    )
    return _answers(question, options)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Question:
    """An image, the network that is asked about it, who is told of the progress, and where places are computed."""

    image: bytes | str | os.PathLike[str] | NDArray[np.float32]
    model: str | ModelCard
    weights: str | os.PathLike[str] | Mapping[str, torch.Tensor] | None
    target: int | None
    patch_color: tuple[int, int, int]
    image_size: int | None
    seed: int
    on_update: Callable[[NDArray[np.float32]], object] | None = None
    on_estimate: Callable[[float], object] | None = None
    spark: SparkSession | None = None

    def network(self, card: ModelCard) -> Network:
        """Open the network from a file of weights, as workers read it."""
        if self.weights is not None and not isinstance(self.weights, str | os.PathLike):
            raise InvalidArgumentError(
                f"weights of type {type(self.weights).__name__}: with spark, workers read them from a file; save them, "
                "and pass its path or URI"
            )
        weights = None if self.weights is None else os.fspath(self.weights)
        return network(card, weights, self.seed, self.image_size)


def _answers(question: _Question, options: Sequence[OcclusionOptions]) -> tuple[Explanation, ...]:
    """Explain one image with each of some options; the network is opened, and its views made, once for all."""
    card = roster.card(question.model) if isinstance(question.model, str) else question.model
    check_explainable(card, {option.mode for option in options})
    preprocessing: Any = card.preprocessing
    if question.image_size is not None:
        preprocessing = preprocessing.with_size(question.image_size)
    extents = (preprocessing.crop,) * 2
    for option in options:
        option.grid(extents)
    fill = color_fill(question.patch_color, preprocessing)
    pixels = decode(question.image, preprocessing)

    own = framework(card.framework)
    warn_of_random_weights(card, question.weights, question.seed)
    where: tuple[object, ...] = (own.threads(),)
    spreading: Callable[[Occlusion], Spread] | None = None
    traced: Any
    if question.spark is None:
        network_here = roster.load(card, question.weights, seed=question.seed)
        traced = own.trace(network_here, list(preprocessing.inputs))
    else:
        net = question.network(card)
        traced = net.traced
    occlusions = [option.occlusion(traced.graph, extents, fill) for option in options]
    if question.spark is not None:
        slots, rounds = task_slots(question.spark), 1 if question.on_update is None else _ROUNDS
        where = (question.spark.conf.get("spark.master", ""), slots, rounds)
        source = net.shipped(question.spark).source
        spreading = partial(Spread, question.spark, source, slots=slots, rounds=rounds)
    ready = traced.prepare(own.threads())
    opened, explanations = None, []
    for occlusion in occlusions:
        occluder, spread = open_occluder(own, ready, occlusion), spreading and spreading(occlusion)
        if question.on_estimate is not None:
            key = (card.name, preprocessing.size, occlusion, *where)
            cost = cost_model((spread or occluder).cost_model, key)
            question.on_estimate(cost.seconds(occluder.places))
        started = time.perf_counter()
        opened = opened or occluder.opened(pixels)
        try:
            heat = occluder.heat_map(opened, question.target, question.on_update, spread)
        except TargetError as error:
            raise InvalidArgumentError(f"target={question.target!r}: {error}") from None
        explanation = Explanation(
            heat.values, occlusion.grid, heat.target, heat.predicted, heat.probability, occlusion.mode,
            occluder.patches.overall_speed_up, time.perf_counter() - started, _shown(pixels, preprocessing),
        )  # fmt: skip
        explanations.append(explanation)
    return tuple(explanations)


def _shown(pixels: NDArray[np.float32], preprocessing: Preprocessing) -> NDArray[np.uint8]:
    """Pixels back from the network's input."""
    image = pixels.transpose(1, 2, 0) if preprocessing.layout == "NCHW" else pixels
    last = image * np.array(preprocessing.std) + np.array(preprocessing.mean)
    picture: NDArray[np.uint8] = np.clip(np.rint(last / preprocessing.scale), 0, 255).astype(np.uint8)
    return picture if preprocessing.channels == "RGB" else picture[:, :, ::-1]
