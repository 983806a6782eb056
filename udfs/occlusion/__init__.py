"""Occlusion heat maps of images: exact, approximate and naive (Krypton, chapter 6).

What needs torch is in :mod:`udfs.occlusion.occluder` and :mod:`udfs.occlusion.tuning`.
"""

from udfs.occlusion._batch_function import Explaining
from udfs.occlusion._drill_down import Lattice
from udfs.occlusion._gaussian_process import Surface
from udfs.occlusion._heat_maps import HeatMaps
from udfs.occlusion._naive_occluder import NaiveOccluder, open_occluder
from udfs.occlusion._occlusion import (
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
from udfs.occlusion._pace import Pace
from udfs.occlusion._place_order import coarse_to_fine, nearest_known
from udfs.occlusion._places_task import COST, VALUES, Share, ShareCost
from udfs.occlusion._sampling import COMPARABLE, SMALLEST_SAMPLED, Sampling, spread_places
from udfs.occlusion._score import OUTPUTS, Output, Score, ScoreError, SettledScore
from udfs.occlusion._similarity import similarity
from udfs.occlusion._tau_curve import TAUS, Curve, bisected, fitted
from udfs.occlusion._tuning_result import Measured
from udfs.occlusion._verification import VerificationError, places_to_verify

__all__ = [
    "COMPARABLE",
    "COST",
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
    "fitted",
    "nearest_known",
    "open_occluder",
    "places_to_verify",
    "similarity",
    "spread_places",
]
