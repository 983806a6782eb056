"""The options of an occlusion, as one value that is checked once."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from optimizer.errors import nearest
from optimizer.occlusion import OcclusionGrid, PatchError, stage_one_step
from udfs.attribution import baseline_of
from udfs.occlusion import MODES, PERTURBATIONS, PRECISIONS, Occlusion, Score
from vista_spark.errors import InvalidArgumentError
from vista_spark.occlusion._arguments import as_array, as_head, ranges, real_number, whole_number, whole_numbers
from vista_spark.occlusion._checks import check_color, check_network

if TYPE_CHECKING:
    from collections.abc import Sequence

    from udfs.handlers import TracedModel
    from udfs.images import Preprocessing
    from udfs.occlusion import Mode, Output, Perturbation, Precision

__all__ = ["Content", "OcclusionOptions", "color_fill"]

Content: TypeAlias = str | NDArray[Any] | Callable[[NDArray[Any]], NDArray[Any]]
"""What a patch holds, by its name, as an array of the input's shape, or as a function of the input to one."""

# Options of the approximate mode, and their defaults where one of the first three is given.
_FIXED: dict[str, Any] = {"tau": 0.8, "target_speedup": 3.0, "drill_down_fraction": 0.25}
_APPROXIMATE: dict[str, Any] = {**_FIXED, "target_ssim": 0.9, "precision": "float32"}


@dataclass(frozen=True, kw_only=True, slots=True)
class OcclusionOptions:
    """A patch, its places, and how the network is computed for them; for an image, a tensor, or a column of images.

    Parameters
    ----------
    patch, stride : tuple of int
        In elements, an entry per axis; the stride is at most the patch.
    region : tuple of pairs of int, optional
        That the patch stays in, half-open, a pair per axis; everything by default.
    perturbation : {"color", "mean", "blur"}, array or callable
        What the patch holds; an array or a function of the input to one, until :meth:`over` has made it an array.
    mode : {"exact", "approximate", "naive"}
    target_ssim : float, optional
        In the approximate mode alone: places are computed exactly, round after round, until the estimated SSIM of the
        heat map reaches it. Above 0, below 1. Default 0.9, unless one of the next three is given.
    tau : float, optional
        In the approximate mode alone, instead of `target_ssim`: the fraction of each axis that is kept up to date
        around a patch, at most 1. Default 0.8 where one of the next two is given.
    target_speedup : float, optional
        In the approximate mode alone, instead of `target_ssim`: by drill-down; 1 is without. Default 3 where another of
        these three is given.
    drill_down_fraction : float, optional
        In the approximate mode alone, instead of `target_ssim`: of the heat map, in drill-down's second stage. Default
        0.25 where another of these three is given.
    precision : {"float32", "bfloat16"}, optional
        In the approximate mode alone. Default ``"float32"``.
    batch_size : int
        Places at a time.
    output : {"probability", "logit", "log_odds", "value"} or callable, optional
        The score that is mapped; see :class:`udfs.occlusion.Score`.
    head : str or int, optional
        The output, of a network that returns several.
    verify : int, optional
        Places to compute again with the untouched network. Default 1 in 50, at least 1 and at most 4. In the
        approximate mode 0 alone, for no check.
    seed : int
        Of the choice of these places.

    Raises
    ------
    InvalidArgumentError
        An unknown perturbation, mode, precision or output; a number that is none, or below its least; an option of
        the approximate mode in another one; a stride that leaves elements between two places uncovered.

    Examples
    --------
    >>> OcclusionOptions(patch=(16, 16), stride=(4, 4), tau=0.5)
    Traceback (most recent call last):
    optimizer.errors.InvalidArgumentError: tau=0.5: only in the approximate mode; leave it out of mode="exact"
    """

    patch: tuple[int, ...]
    stride: tuple[int, ...]
    region: tuple[tuple[int, int], ...] | None = None
    perturbation: Content = "color"
    mode: str = "exact"
    target_ssim: float | None = None
    tau: float | None = None
    target_speedup: float | None = None
    drill_down_fraction: float | None = None
    precision: str | None = None
    batch_size: int = 32
    output: Output | None = None
    head: str | int | None = None
    verify: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        self._put(perturbation=as_array(self.perturbation))
        named: tuple[tuple[str, Any, tuple[str, ...]], ...] = (
            ("mode", self.mode, MODES),
            ("perturbation", self.perturbation, PERTURBATIONS),
            ("precision", self.precision or "float32", PRECISIONS),
        )
        for name, value, allowed in named:
            if name == "perturbation" and (isinstance(value, np.ndarray) or callable(value)):
                continue
            if value not in allowed:
                hint = nearest(str(value), allowed)
                raise InvalidArgumentError(f"{name}={value!r}{hint}; one of: {', '.join(allowed)}")
        Score(self.output)
        self._put(head=as_head(self.head), **self._numbers(), **self._of_the_approximate_mode())
        for step, extent in zip(self.stride, self.patch, strict=True):
            if step > extent:
                raise InvalidArgumentError(
                    f"stride {step} is larger than the patch of {extent}: elements between two places would never be "
                    "covered"
                )

    def _numbers(self) -> dict[str, Any]:
        """Read the numbers that all modes have."""
        patch = whole_numbers("patch", self.patch, 1)
        verify = None if self.verify is None else whole_number("verify", self.verify, 0)
        if verify and self.mode == "approximate":
            raise InvalidArgumentError(
                f"verify={verify}: the values of the approximate mode differ from the network's; leave it out, or take "
                "0 for no check of the image without a patch"
            )
        return {
            "patch": patch,
            "stride": whole_numbers("stride", self.stride, 1),
            "region": None if self.region is None else ranges("region", self.region, len(patch)),
            "batch_size": whole_number("batch_size", self.batch_size, 1),
            "verify": verify,
            "seed": whole_number("seed", self.seed, 0),
        }

    def _of_the_approximate_mode(self) -> dict[str, Any]:
        """Read the options of the approximate mode, which other modes refuse."""
        given = {name: getattr(self, name) for name in _APPROXIMATE}
        for name, value in given.items():
            if value is not None and self.mode != "approximate":
                raise InvalidArgumentError(
                    f'{name}={value!r}: only in the approximate mode; leave it out of mode="{self.mode}"'
                )
        numbers = {
            name: real_number(name, value) for name, value in given.items() if value is not None and name != "precision"
        }
        fixed = [f"{name}={numbers[name]:g}" for name in _FIXED if name in numbers]
        target = numbers.get("target_ssim")
        if target is not None and fixed:
            raise InvalidArgumentError(
                f"target_ssim={target:g} and {fixed[0]}: the first chooses how much is computed, the other says it; "
                "leave one out"
            )
        if target is not None and not 0 < target < 1:
            raise InvalidArgumentError(f'target_ssim={target:g}: above 0 and below 1; 1 is mode="exact"')
        defaults = _FIXED if fixed else {"target_ssim": _APPROXIMATE["target_ssim"]}
        return {**defaults, "precision": self.precision or _APPROXIMATE["precision"], **numbers}

    def _put(self, **values: Any) -> None:
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def over(self, pixels: NDArray[np.float32], spatial: Sequence[int]) -> OcclusionOptions:
        """Make what the patch holds an array of the input's shape, where it was given as one or as a function.

        Parameters
        ----------
        pixels : array of float32, of the network's input
        spatial : sequence of int
            Its axes that are not channels.

        Raises
        ------
        InvalidArgumentError
            The array does not have the input's shape, or has elements that are no finite numbers.
        """
        if isinstance(self.perturbation, str):
            return self
        try:
            content = baseline_of(self.perturbation, pixels, spatial)
        except InvalidArgumentError as error:
            raise InvalidArgumentError(f"perturbation: {error}") from None
        made = copy(self)  # checked already
        object.__setattr__(made, "perturbation", np.ascontiguousarray(content))
        return made

    def grid(self, extents: tuple[int, ...]) -> OcclusionGrid:
        """Place the patch on an input of some extents, one per axis.

        Raises
        ------
        optimizer.occlusion.PatchError
            The patch does not fit, or the region reaches outside of the input.
        """
        return OcclusionGrid(extents, self.patch, self.stride, self.region)

    def occlusion(
        self, model: TracedModel, extents: tuple[int, ...], fill: tuple[float, ...], *, incremental: bool = True
    ) -> Occlusion:
        """Describe the occlusion in the network's own terms.

        Parameters
        ----------
        model : TracedModel
        extents : tuple of int
            Of the network's input, without its channels.
        fill : tuple of float
            What a patch of one colour holds, per channel, as the network reads it.
        incremental : bool
            Whether the network's framework computes parts of tensors.

        Raises
        ------
        InvalidArgumentError
            The network has no such score, or no layer that can be computed in parts; or no stride of drill-down
            reaches the speed-up.
        optimizer.occlusion.PatchError
            As :meth:`grid`.
        """
        grid = self.grid(extents)
        score = Score(self.output, self.head)
        score.check(model)
        if incremental:
            check_network(model.graph, self.mode)
        approximate = self.mode == "approximate"
        return Occlusion(
            grid=grid,
            fill=fill,
            mode=cast("Mode", self.mode),
            tau=1.0 if self.tau is None or not approximate else self.tau,
            step=self._step(grid) if approximate and self.target_ssim is None else 1,
            fraction=_FIXED["drill_down_fraction"] if self.drill_down_fraction is None else self.drill_down_fraction,
            target_ssim=self.target_ssim if approximate else None,
            batch_size=self.batch_size,
            perturbation=cast("Perturbation", self.perturbation),
            precision=cast("Precision", self.precision),
            score=score,
            verify=self.verify,
            seed=self.seed,
        )

    def _step(self, grid: OcclusionGrid) -> int:
        """Stage one's stride over stage two's."""
        try:
            speedup, fraction = cast("float", self.target_speedup), cast("float", self.drill_down_fraction)
            return stage_one_step(grid, speedup, fraction)
        except PatchError as error:
            raise InvalidArgumentError(str(error)) from None


def color_fill(color: tuple[int, ...], preprocessing: Preprocessing) -> tuple[float, ...]:
    """Translate a colour of an image, in RGB from 0 to 255, to what the network reads, per channel.

    Raises
    ------
    InvalidArgumentError
        It is no colour.
    """
    check_color(color, "patch_color")
    channels = np.array(color if preprocessing.channels == "RGB" else color[::-1])
    normalised = (channels * preprocessing.scale - np.array(preprocessing.mean)) / np.array(preprocessing.std)
    return tuple(float(value) for value in normalised.astype(np.float32))
