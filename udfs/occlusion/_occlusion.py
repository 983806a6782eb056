"""Settings of a heat map, and the heat map."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, get_args

from optimizer.errors import CerebroError
from udfs.occlusion._score import Score

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from optimizer.occlusion import OcclusionGrid

__all__ = [
    "MODES",
    "PERTURBATIONS",
    "PRECISIONS",
    "HeatMap",
    "Mode",
    "Occlusion",
    "Perturbation",
    "Precision",
    "TargetError",
]


class TargetError(CerebroError, ValueError):
    """Target that the score does not have; the message names the valid ones."""


Mode = Literal["exact", "approximate", "naive"]
MODES: tuple[str, ...] = get_args(Mode)

Perturbation = Literal["color", "mean", "blur"]
PERTURBATIONS: tuple[str, ...] = get_args(Perturbation)

Precision = Literal["float32", "bfloat16"]
PRECISIONS: tuple[str, ...] = get_args(Precision)


@dataclass(frozen=True, slots=True)
class Occlusion:
    """Settings of a heat map: the patch, its places, and the precision of the network's answers."""

    grid: OcclusionGrid  # places of the patch
    fill: tuple[float, ...]  # value of a patch of one colour, by channel, as the network reads it
    mode: Mode = "exact"  # way to compute the heat map
    tau: float = 1.0  # threshold of projective field thresholding, in the approximate mode
    # Ratio of the strides of stage one and stage two, in the approximate mode. Default 1: every place is computed.
    step: int = 1
    fraction: float = 0.25  # share of the heat map in stage two
    batch_size: int = 32  # places per batch
    # Content of the patch: one colour; the image's mean; the blurred image, each pixel the mean of a neighbourhood of
    # the patch's size; or an array of the image's shape.
    perturbation: Perturbation | NDArray[np.float32] = "color"
    precision: Precision = "float32"  # precision of the places, in the approximate mode
    score: Score = field(default_factory=Score)  # score that is mapped
    # Places to compute again with the original network; see udfs.occlusion.places_to_verify. In the approximate mode
    # the image without a patch is computed again as well, unless it is 0.
    verify: int | None = None
    seed: int = 0  # seed of the choice of these places
    # In the approximate mode, instead of `tau` and `step`: rounds of places are computed exactly until the estimated
    # SSIM of the heat map reaches it.
    target_ssim: float | None = None
    note: str = ""  # description of why the mode or the precision is not the one that was wanted

    @property
    def in_bfloat16(self) -> bool:
        """True if places are computed in bfloat16."""
        return self.mode == "approximate" and self.precision == "bfloat16"


@dataclass(frozen=True, slots=True)
class HeatMap:
    """Heat map of one target, made by :meth:`udfs.occlusion.occluder.Occluder.heat_map`."""

    values: NDArray[np.float32]  # score of the target with the patch there, of the grid's shape
    target: int  # element of the score that is mapped, and the largest one for the whole image
    predicted: int
    probability: float  # score of the target for the whole image; a probability where `score` says so
    score: str  # description of the score
    verified: int = 0  # number of places that were computed again with the original network
    difference: float = 0.0  # largest difference at these places
    elements: int = 0  # number of elements of the score
    # The five largest elements of the score for the whole image, the largest first, and their scores.
    top: tuple[tuple[int, float], ...] = ()
    # Estimated SSIM with the exact heat map, in the approximate mode. 1 where all places are computed exactly; None
    # where the map is too small for an SSIM.
    likeness: float | None = None
    computed: int = 0  # number of places that were computed; the others are estimated from them
