"""Attribution of a score to the parts of an input, beside occlusion: ablation, LIME, RISE, and curves that judge them.

Everything here is numpy over a :data:`ScoreFunction`, a function from a batch of inputs to a number for each, so that
it works with any framework.
"""

from udfs.attribution._ablation import Ablated, ablate
from udfs.attribution._baselines import BASELINES, baseline_of, blurred
from udfs.attribution._cover import mean_over_places
from udfs.attribution._curves import ScoreCurve, deletion, insertion
from udfs.attribution._groups import group_masks, groups_along
from udfs.attribution._lime import Surrogate, lime
from udfs.attribution._rise import Rise, rise
from udfs.attribution._scoring import ScoreFunction, positive
from udfs.attribution._segments import superpixels
from udfs.attribution._shapley import Shapley, shapley

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
