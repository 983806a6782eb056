"""One training unit: a model, its optimiser and its random numbers, on one shard, from one checkpoint to the next."""

from udfs.training._functions import TrainingFunctions
from udfs.training._metrics import METRICS, Metric, MetricError, metric
from udfs.training._session import Diverged, Session, TrainingError, open_session, training_bytes
from udfs.training._sums import Sums, merge_sums
from udfs.training._trainer import ModelTrainer, TrainerError
from udfs.training._unit import initial_seed, row_order

__all__ = [
    "METRICS",
    "Diverged",
    "Metric",
    "MetricError",
    "ModelTrainer",
    "Session",
    "Sums",
    "TrainerError",
    "TrainingError",
    "TrainingFunctions",
    "initial_seed",
    "merge_sums",
    "metric",
    "open_session",
    "row_order",
    "training_bytes",
]
