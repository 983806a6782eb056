"""The options of an occlusion, as one value that is checked once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import numpy as np

from optimizer.errors import nearest
from optimizer.occlusion import OcclusionGrid, PatchError, stage_one_step
from udfs.occlusion import MODES, PERTURBATIONS, PRECISIONS, Occlusion
from vista_spark.errors import InvalidArgumentError
from vista_spark.occlusion._checks import check_color, check_network

if TYPE_CHECKING:
    from optimizer.graph import LayerGraph
    from udfs.images import Preprocessing
    from udfs.occlusion import Mode, Perturbation, Precision

__all__ = ["OcclusionOptions", "color_fill"]


@dataclass(frozen=True, kw_only=True, slots=True)
class OcclusionOptions:
    """A patch, its places, and how the network is computed for them; for an image, a tensor, or a column of images.

    Parameters
    ----------
    patch, stride : tuple of int
        In elements, an entry per axis; the stride is at most the patch.
    region : tuple of pairs of int, optional
        That the patch stays in, half-open, a pair per axis; everything by default.
    perturbation : {"color", "mean", "blur"}
        What the patch holds.
    mode : {"exact", "approximate", "naive"}
    tau : float
        In the approximate mode: the fraction of each axis that is kept up to date around a patch, at most 1.
    target_speed_up : float
        In the approximate mode, by drill-down; 1 is without.
    drill_down_fraction : float
        Of the heat map, in drill-down's second stage.
    precision : {"float32", "bfloat16"}
        In the approximate mode.
    batch_size : int
        Places at a time.

    Raises
    ------
    InvalidArgumentError
        An unknown perturbation, mode or precision; a stride that leaves elements between two places uncovered.
    """

    patch: tuple[int, ...]
    stride: tuple[int, ...]
    region: tuple[tuple[int, int], ...] | None = None
    perturbation: str = "color"
    mode: str = "exact"
    tau: float = 1.0
    target_speed_up: float = 1.0
    drill_down_fraction: float = 0.25
    precision: str = "float32"
    batch_size: int = 32

    def __post_init__(self) -> None:
        for name, value, allowed in (
            ("mode", self.mode, MODES),
            ("perturbation", self.perturbation, PERTURBATIONS),
            ("precision", self.precision, PRECISIONS),
        ):
            if value not in allowed:
                raise InvalidArgumentError(f"{name}={value!r}{nearest(value, allowed)}; one of: {', '.join(allowed)}")
        for step, extent in zip(self.stride, self.patch, strict=True):
            if step > extent:
                raise InvalidArgumentError(
                    f"stride {step} is larger than the patch of {extent}: elements between two places would never be "
                    "covered"
                )

    def grid(self, extents: tuple[int, ...]) -> OcclusionGrid:
        """Place the patch on an input of some extents, one per axis.

        Raises
        ------
        optimizer.occlusion.PatchError
            The patch does not fit, or the region reaches outside of the input.
        """
        return OcclusionGrid(extents, self.patch, self.stride, self.region)

    def occlusion(self, graph: LayerGraph, extents: tuple[int, ...], fill: tuple[float, ...]) -> Occlusion:
        """Describe the occlusion in the network's own terms.

        Parameters
        ----------
        graph : LayerGraph
        extents : tuple of int
            Of the network's input, without its channels.
        fill : tuple of float
            What a patch of one colour holds, per channel, as the network reads it.

        Raises
        ------
        InvalidArgumentError
            The network has several outputs, or no layer that can be computed in parts; or no stride of drill-down
            reaches the speed-up.
        optimizer.occlusion.PatchError
            As :meth:`grid`.
        """
        grid = self.grid(extents)
        check_network(graph, self.mode)
        approximate = self.mode == "approximate"
        return Occlusion(
            grid=grid,
            fill=fill,
            mode=cast("Mode", self.mode),
            tau=self.tau if approximate else 1.0,
            step=self._step(grid) if approximate else 1,
            fraction=self.drill_down_fraction,
            batch_size=self.batch_size,
            perturbation=cast("Perturbation", self.perturbation),
            precision=cast("Precision", self.precision),
        )

    def _step(self, grid: OcclusionGrid) -> int:
        """Stage one's stride over stage two's."""
        try:
            return stage_one_step(grid, self.target_speed_up, self.drill_down_fraction)
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
