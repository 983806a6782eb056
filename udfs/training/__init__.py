"""Training unit of a configuration: its session protocol, row order, batch weights, freezing schedule and errors.

:mod:`udfs.handlers` opens sessions; :mod:`udfs.hopper` runs their units.
"""

from udfs.training._errors import Diverged, TrainerError, TrainingError
from udfs.training._freezing import check_phases, frozen_up_to
from udfs.training._functions import TrainingFunctions
from udfs.training._random_seeds import initial_seed, row_order
from udfs.training._session import BatchWeights, OutputKind, Rows, Session, Trainer
from udfs.training._weights import batch_weights

__all__ = [
    "BatchWeights",
    "Diverged",
    "OutputKind",
    "Rows",
    "Session",
    "Trainer",
    "TrainerError",
    "TrainingError",
    "TrainingFunctions",
    "batch_weights",
    "check_phases",
    "frozen_up_to",
    "initial_seed",
    "row_order",
]
