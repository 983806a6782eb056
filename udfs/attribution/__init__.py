"""Attribution of a score to the parts of an input, beside occlusion: ablation, LIME, RISE, and curves that judge them.

Everything here is numpy over a :data:`ScoreFunction`, a function from a batch of inputs to a number for each, so that
it works with any framework.
"""

from ._ablation import Ablated, ablate
from ._baselines import BASELINES, baseline_of, blurred
from ._cover import mean_over_places
from ._curves import ScoreCurve, deletion, insertion
from ._groups import group_masks, groups_along
from ._lime import Surrogate, lime
from ._rise import Rise, rise
from ._scoring import ScoreFunction, positive
from ._segments import superpixels
from ._shapley import Shapley, shapley

__all__ = [
    "BASELINES",
    "Ablated",
    "Rise",
    "ScoreCurve",
    "ScoreFunction",
    "Shapley",
    "Surrogate",
    "ablate",
    "baseline_of",
    "blurred",
    "deletion",
    "group_masks",
    "groups_along",
    "insertion",
    "lime",
    "mean_over_places",
    "positive",
    "rise",
    "shapley",
    "superpixels",
]
