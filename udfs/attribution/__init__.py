"""Attribution of a score to the parts of an input: ablation, LIME, Shapley values, RISE and curves that compare them.

Everything here is numpy over a :data:`ScoreFunction`, a function from a batch of inputs to a number for each, so that
it works with any framework.
"""

from udfs.attribution._ablation import ablate
from udfs.attribution._baselines import baseline_of, blurred
from udfs.attribution._curves import ScoreCurve, deletion, insertion
from udfs.attribution._grouped_inputs import GroupedInputs, groups_along
from udfs.attribution._lime import lime
from udfs.attribution._place_mean import mean_over_places
from udfs.attribution._rise import rise
from udfs.attribution._scored_inputs import Importance, ScoredInputs, ScoreFunction, check_positive
from udfs.attribution._shapley import shapley
from udfs.attribution._superpixels import superpixels

__all__ = [
    "GroupedInputs",
    "Importance",
    "ScoreCurve",
    "ScoreFunction",
    "ScoredInputs",
    "ablate",
    "baseline_of",
    "blurred",
    "check_positive",
    "deletion",
    "groups_along",
    "insertion",
    "lime",
    "mean_over_places",
    "rise",
    "shapley",
    "superpixels",
]
