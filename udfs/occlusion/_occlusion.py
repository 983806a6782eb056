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
    """Settings of a heat map: the patch, its places, and the precision of the network's answers.

    Parameters
    ----------
    grid : OcclusionGrid
        Places of the patch.
    fill : tuple of float
        Value of a patch of one colour, by channel, as the network reads it.
    mode : {"exact", "approximate", "naive"}
        Way to compute the heat map. Default ``"exact"``.
    tau : float
        Threshold of projective field thresholding, in the approximate mode. Default 1.
    step : int
        Ratio of the strides of stage one and stage two, in the approximate mode. Default 1: every place is computed.
    fraction : float
        Share of the heat map in stage two. Default 0.25.
    target_ssim : float, optional
        In the approximate mode, instead of `tau` and `step`: rounds of places are computed exactly until the estimated
        SSIM of the heat map reaches it.
    batch_size : int
        Places per batch. Default 32.
    perturbation : {"color", "mean", "blur"} or array
        Content of the patch: one colour; the image's mean; the blurred image, each pixel the mean of a neighbourhood of
        the patch's size; or an array of the image's shape.
    precision : {"float32", "bfloat16"}
        Precision of the places, in the approximate mode. Default ``"float32"``.
    score : Score
        Score that is mapped.
    verify : int, optional
        Places to compute again with the original network; see :func:`udfs.occlusion.places_to_verify`. In the
        approximate mode the image without a patch is computed again as well, unless it is 0.
    seed : int
        Seed of the choice of these places. Default 0.
    """

    grid: OcclusionGrid
    fill: tuple[float, ...]
    mode: Mode = "exact"
    tau: float = 1.0
    step: int = 1
    fraction: float = 0.25
    batch_size: int = 32
    perturbation: Perturbation | NDArray[np.float32] = "color"
    precision: Precision = "float32"
    score: Score = field(default_factory=Score)
    verify: int | None = None
    seed: int = 0
    target_ssim: float | None = None

    @property
    def in_bfloat16(self) -> bool:
        """True if places are computed in bfloat16."""
        return self.mode == "approximate" and self.precision == "bfloat16"


@dataclass(frozen=True, slots=True)
class HeatMap:
    """Heat map of one target, made by :meth:`udfs.occlusion.occluder.Occluder.heat_map`.

    Attributes
    ----------
    values : array of float32, of the grid's shape
        Score of the target with the patch there.
    target, predicted : int
        Element of the score that is mapped, and the largest one for the whole image.
    probability : float
        Score of the target for the whole image; a probability where `score` says so.
    score : str
        Description of the score.
    verified : int
        Number of places that were computed again with the original network.
    difference : float
        Largest difference at these places.
    elements : int
        Number of elements of the score.
    top : tuple of (int, float)
        The five largest elements of the score for the whole image, the largest first, and their scores.
    likeness : float or None
        Estimated SSIM with the exact heat map, in the approximate mode. 1 where all places are computed exactly;
        ``None`` where the map is too small for an SSIM.
    computed : int
        Number of places that were computed; the others are estimated from them.
    """

    values: NDArray[np.float32]
    target: int
    predicted: int
    probability: float
    score: str
    verified: int = 0
    difference: float = 0.0
    elements: int = 0
    top: tuple[tuple[int, float], ...] = ()
    likeness: float | None = None
    computed: int = 0
