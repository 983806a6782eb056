"""Training unit of a configuration: session protocol, row views, row order, weights, freezing schedule and errors.

:mod:`udfs.handlers` opens sessions; :mod:`udfs.hopper` runs their units.
"""

from udfs.training._errors import Diverged, TrainerError, TrainingError
from udfs.training._folds import HELD_OUT_FOLD, Folds
from udfs.training._freezing import check_phases, frozen_up_to
from udfs.training._functions import TrainingFunctions
from udfs.training._known_losses import KERAS_LOSSES, TORCH_LOSSES, LossFacts
from udfs.training._random_seeds import RANDOM_STREAM, initial_seed, random_stream, row_order
from udfs.training._row_view import InputColumns, RowView, check_view, view_of, viewed_rows
from udfs.training._session import BatchWeights, Rows, Session, Trainer
from udfs.training._session_task import check_losses, decide_session_task, follow_task
from udfs.training._task import Task
from udfs.training._task_decision import Ending, decide_task
from udfs.training._task_sums import TaskDecision, TaskSums
from udfs.training._weights import batch_weights

__all__ = [
    "HELD_OUT_FOLD",
    "KERAS_LOSSES",
    "RANDOM_STREAM",
    "TORCH_LOSSES",
    "BatchWeights",
    "Diverged",
    "Ending",
    "Folds",
    "InputColumns",
    "LossFacts",
    "RowView",
    "Rows",
    "Session",
    "Task",
    "TaskDecision",
    "TaskSums",
    "Trainer",
    "TrainerError",
    "TrainingError",
    "TrainingFunctions",
    "batch_weights",
    "check_losses",
    "check_phases",
    "check_view",
    "decide_session_task",
    "decide_task",
    "follow_task",
    "frozen_up_to",
    "initial_seed",
    "random_stream",
    "row_order",
    "view_of",
    "viewed_rows",
]
