"""Settings of a heat map, and the heat map, as values."""

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
    """A target that the score does not have; the message says which ones it has."""


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
    fill : tuple of float
        Of a patch of one colour, by channel, as the network reads it.
    mode : {"exact", "approximate", "naive"}
    tau : float
        Of projective field thresholding, in the approximate mode.
    step : int
        Stage one's stride over stage two's, in the approximate mode; 1 computes every place.
    fraction : float
        Of the heat map, in stage two.
    target_ssim : float, optional
        In the approximate mode, instead of `tau` and `step`: rounds of places are computed exactly until the estimated
        SSIM of the heat map reaches it.
    batch_size : int
        Places at a time.
    perturbation : {"color", "mean", "blur"} or array
        What the patch has: one colour; the image's mean; the image itself, each pixel the mean of as large a
        neighbourhood as the patch; or what an array of the image's shape has at that place.
    precision : {"float32", "bfloat16"}
        Of the places, in the approximate mode.
    score : Score
        The number that is mapped.
    verify : int, optional
        Places to compute again with the untouched network; see :func:`udfs.occlusion.places_to_verify`. In the
        approximate mode the image without a patch is computed again, too, unless it is 0.
    seed : int
        Of the choice of these places.
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
        """Whether places are computed in bfloat16."""
        return self.mode == "approximate" and self.precision == "bfloat16"


@dataclass(frozen=True, slots=True)
class HeatMap:
    """Made by :meth:`udfs.occlusion.occluder.Occluder.heat_map`.

    Attributes
    ----------
    values : array of float32, of the grid's shape
        Score of the target with the patch there.
    target, predicted : int
        The element of the score that the values are of, and the largest one for the whole image.
    probability : float
        Score of the target for the whole image; a probability where `score` says so.
    score : str
        The score in words.
    verified : int
        Number of places that were computed again with the untouched network.
    difference : float
        The largest difference found there.
    elements : int
        Number of elements of the score.
    top : tuple of (int, float)
        The five largest elements of the score for the whole image, the largest first, and their scores.
    likeness : float or None
        In the approximate mode: the estimated SSIM with the exact heat map. 1 where all places are computed exactly;
        ``None`` where the map is too small for an SSIM.
    computed : int
        Number of places that were computed; the others follow from them.
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
