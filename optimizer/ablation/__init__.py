"""Ablation: variants of a configuration with parts removed, random controls, and paired comparisons of their scores."""

from optimizer.ablation._comparison import BETTER, FAILED, NOT_DISTINGUISHABLE, WORSE, Comparison, Effect, compare
from optimizer.ablation._intervals import Interval, holm, paired_interval, student_p_value, student_quantile
from optimizer.ablation._removal import REMOVED, REPEAT, VARIANT, Removal, configurations
from optimizer.ablation._variants import FULL, Variant, design

__all__ = [
    "BETTER",
    "FAILED",
    "FULL",
    "NOT_DISTINGUISHABLE",
    "REMOVED",
    "REPEAT",
    "VARIANT",
    "WORSE",
    "Comparison",
    "Effect",
    "Interval",
    "Removal",
    "Variant",
    "compare",
    "configurations",
    "design",
    "holm",
    "paired_interval",
    "student_p_value",
    "student_quantile",
]
