"""Ablation: the effect of each feature, module and setting of a network on its quality."""

from cerebro_spark.ablation._ablation import Ablation
from cerebro_spark.ablation._result import AblationResult

__all__ = ["Ablation", "AblationResult"]
