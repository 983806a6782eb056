"""Occlusion heat maps of images: exact, approximate and naive (Krypton, chapter 6).

What needs torch is in :mod:`udfs.occlusion.occluder` and :mod:`udfs.occlusion.tuning`.
"""

from ._cost import Pace
from ._curve import TAUS, Curve, bisected, fitted
from ._drill import Lattice
from ._explaining import DETAILS, Explaining
from ._heat_maps import HeatMaps
from ._measured import Measured
from ._naive import NaiveOccluder, open_occluder
from ._order import coarse_to_fine, nearest_known
from ._sampling import COMPARABLE, SMALLEST_SAMPLED, Sampling, coordinates, spread_places
from ._score import OUTPUTS, Output, Score, ScoreError, SettledScore
from ._settings import (
    MODES,
    PERTURBATIONS,
    PRECISIONS,
    HeatMap,
    Mode,
    Occlusion,
    Perturbation,
    Precision,
    TargetError,
)
from ._share import COST, VALUES, Share, ShareCost
from ._similarity import similarity
from ._surface import Surface
from ._verification import VerificationError, places_to_verify

__all__ = [
    "COMPARABLE",
    "COST",
    "DETAILS",
    "MODES",
    "OUTPUTS",
    "PERTURBATIONS",
    "PRECISIONS",
    "SMALLEST_SAMPLED",
    "TAUS",
    "VALUES",
    "Curve",
    "Explaining",
    "HeatMap",
    "HeatMaps",
    "Lattice",
    "Measured",
    "Mode",
    "NaiveOccluder",
    "Occlusion",
    "Output",
    "Pace",
    "Perturbation",
    "Precision",
    "Sampling",
    "Score",
    "ScoreError",
    "SettledScore",
    "Share",
    "ShareCost",
    "Surface",
    "TargetError",
    "VerificationError",
    "bisected",
    "coarse_to_fine",
    "coordinates",
    "fitted",
    "nearest_known",
    "open_occluder",
    "places_to_verify",
    "similarity",
    "spread_places",
]
