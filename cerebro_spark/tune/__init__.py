"""Model selection: the searches that users call, their results, and the tuned model as a Spark ML Transformer."""

from cerebro_spark.tune._grid import GridSearch
from cerebro_spark.tune._model import TunedModel
from cerebro_spark.tune._result import TrialResult
from cerebro_spark.tune._selection import Selection

__all__ = [
    "GridSearch",
    "Selection",
    "TrialResult",
    "TunedModel",
]
