"""One training unit: a model, its optimiser and its random numbers, on one shard, from one checkpoint to the next."""

from udfs.handlers import BatchWeights, Session
from udfs.metrics import METRICS, Metric, MetricError, Sums, merge_sums, metric
from udfs.training._errors import Diverged, TrainerError, TrainingError
from udfs.training._freezing import frozen_up_to
from udfs.training._functions import TrainingFunctions
from udfs.training._open import open_adapted, open_session, training_bytes
from udfs.training._random import apply_random, take_random
from udfs.training._steps import train_in_steps
from udfs.training._trainer import ModelTrainer, trainer_framework
from udfs.training._unit import initial_seed, row_order
from udfs.training._weights import batch_weights

__all__ = [
    "METRICS",
    "BatchWeights",
    "Diverged",
    "Metric",
    "MetricError",
    "ModelTrainer",
    "Session",
    "Sums",
    "TrainerError",
    "TrainingError",
    "TrainingFunctions",
    "apply_random",
    "batch_weights",
    "frozen_up_to",
    "initial_seed",
    "merge_sums",
    "metric",
    "open_adapted",
    "open_session",
    "row_order",
    "take_random",
    "train_in_steps",
    "trainer_framework",
    "training_bytes",
]
