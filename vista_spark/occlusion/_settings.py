"""Translation of :class:`OcclusionOptions` to the settings of one network and input."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from optimizer.occlusion import OcclusionGrid, PatchError, stage_one_step
from udfs.attribution import baseline_of
from udfs.occlusion import Occlusion, Score
from vista_spark.errors import InvalidArgumentError
from vista_spark.occlusion._base_explanation import NOTHING_IN_PARTS
from vista_spark.occlusion._checks import check_color, has_parts
from vista_spark.occlusion._options import APPROXIMATE_DEFAULTS, TARGET_SSIM
from vista_spark.occlusion._predicted_cost import fastest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from udfs.handlers import TracedModel
    from udfs.images import Preprocessing
    from udfs.occlusion import Mode, Perturbation
    from vista_spark.occlusion._options import OcclusionOptions

__all__ = ["color_fill", "occlusion_grid", "occlusion_settings", "with_content"]


def with_content(options: OcclusionOptions, pixels: NDArray[np.float32], spatial: Sequence[int]) -> OcclusionOptions:
    """Return the options with the patch's content as an array, where it is an array or a function of the input.

    Raises
    ------
    InvalidArgumentError
        The array does not have the input's shape, or has elements that are not finite.
    """
    if isinstance(options.perturbation, str):
        return options
    content = baseline_of(options.perturbation, pixels, spatial, argument="perturbation")
    return replace(options, perturbation=np.ascontiguousarray(content))


def occlusion_grid(options: OcclusionOptions, extents: tuple[int, ...]) -> OcclusionGrid:
    """Place the patch on an input with these spatial extents.

    Raises
    ------
    optimizer.occlusion.PatchError
        The patch does not fit, or the region exceeds the input.
    """
    patch, stride = (
        size if isinstance(size, tuple) else (size,) * len(extents) for size in (options.patch_size, options.stride)
    )
    return OcclusionGrid(extents, patch, stride, cast("Any", options.region))


def occlusion_settings(
    options: OcclusionOptions,
    model: TracedModel,
    extents: tuple[int, ...],
    fill: tuple[float, ...],
    *,
    incremental: bool = True,
) -> Occlusion:
    """Translate the options to the settings of one network and the spatial extents of its input.

    The mode is naive instead of exact for a network without a layer that can be computed in parts, and exact instead of
    approximate where that takes as long. `fill` is the value
    of a patch of one colour, per channel, as the network reads it; `incremental` tells whether the network's framework
    computes parts of tensors.

    Raises
    ------
    InvalidArgumentError
        The network has no such score, or no stride of drill-down reaches the speed-up.
    optimizer.occlusion.PatchError
        As :func:`occlusion_grid`.
    """
    grid, score = occlusion_grid(options, extents), Score(options.output, options.head)
    score.check(model)
    mode = options.mode
    note = ""
    if incremental and mode == "exact" and not has_parts(model.graph):
        mode, note = "naive", NOTHING_IN_PARTS
    settled = Occlusion(
        grid=grid,
        fill=fill,
        mode=cast("Mode", mode),
        batch_size=options.batch_size,
        perturbation=cast("Perturbation", options.perturbation),
        score=score,
        verify=options.verify,
        seed=options.seed,
        note=note,
        **_approximation(options, grid),
    )
    return fastest(settled, model, options.precision or "auto") if mode == "approximate" else settled


def _approximation(options: OcclusionOptions, grid: OcclusionGrid) -> dict[str, Any]:
    """Return the settings of the approximate mode, with their defaults."""
    if options.mode != "approximate":
        return {}
    fixed = {name: getattr(options, name) for name in APPROXIMATE_DEFAULTS}
    if all(value is None for value in fixed.values()):
        return {"target_ssim": options.target_ssim or TARGET_SSIM}
    tau, speedup, fraction = (APPROXIMATE_DEFAULTS[name] if value is None else value for name, value in fixed.items())
    try:
        step = stage_one_step(grid, speedup, fraction)
    except PatchError as error:
        raise InvalidArgumentError(str(error)) from None
    return {"tau": tau, "step": step, "fraction": fraction}


def color_fill(color: tuple[int, ...], preprocessing: Preprocessing) -> tuple[float, ...]:
    """Translate a colour in RGB from 0 to 255 to the values that the network reads, per channel.

    Raises
    ------
    InvalidArgumentError
        The color is not three integers from 0 to 255.
    """
    check_color(color, "patch_color")
    channels = np.array(color if preprocessing.channels == "RGB" else color[::-1])
    normalised = (channels * preprocessing.scale - np.array(preprocessing.mean)) / np.array(preprocessing.std)
    return tuple(float(value) for value in normalised.astype(np.float32))
