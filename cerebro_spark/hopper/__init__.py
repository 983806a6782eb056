"""Driver's side of the model hopper: jobs of the workers, coordinator and journal of a run (Cerebro, section 3.5)."""

from cerebro_spark.hopper._backend import SparkBackend
from cerebro_spark.hopper._budget import Budget
from cerebro_spark.hopper._context import RunContext
from cerebro_spark.hopper._coordinator import Coordinator
from cerebro_spark.hopper._director import Director
from cerebro_spark.hopper._early_check import check_trainer
from cerebro_spark.hopper._events import Event, Loss, Observer
from cerebro_spark.hopper._grouping import Group, Grouping, Singles
from cerebro_spark.hopper._holdings import Holdings
from cerebro_spark.hopper._inspection import Finding, inspect_store
from cerebro_spark.hopper._interrupts import Interrupts
from cerebro_spark.hopper._journal import IF_BEGUN, Journal, RunSpec
from cerebro_spark.hopper._labels import LabelSample, check_label_samples
from cerebro_spark.hopper._lease import Lease
from cerebro_spark.hopper._log import TrialLog
from cerebro_spark.hopper._probe import Probed, probe
from cerebro_spark.hopper._replay_record import Recorded
from cerebro_spark.hopper._rounds import ROUNDS
from cerebro_spark.hopper._run import Outcome, Run, RunResult
from cerebro_spark.hopper._slots import uses_slots
from cerebro_spark.hopper._stacked_groups import STACKS, StackedGroups
from cerebro_spark.hopper._stored_states import CHECKPOINTS, KEEPS, best_epoch
from cerebro_spark.hopper._trial import UNBROKEN, Death, Trial
from cerebro_spark.hopper._trial_limit import cancellable_trials, run_trial
from cerebro_spark.hopper._user_modules import check_modules

__all__ = [
    "CHECKPOINTS",
    "IF_BEGUN",
    "KEEPS",
    "ROUNDS",
    "STACKS",
    "UNBROKEN",
    "Budget",
    "Coordinator",
    "Death",
    "Director",
    "Event",
    "Finding",
    "Group",
    "Grouping",
    "Holdings",
    "Interrupts",
    "Journal",
    "LabelSample",
    "Lease",
    "Loss",
    "Observer",
    "Outcome",
    "Probed",
    "Recorded",
    "Run",
    "RunContext",
    "RunResult",
    "RunSpec",
    "Singles",
    "SparkBackend",
    "StackedGroups",
    "Trial",
    "TrialLog",
    "best_epoch",
    "cancellable_trials",
    "check_label_samples",
    "check_modules",
    "check_trainer",
    "inspect_store",
    "probe",
    "run_trial",
    "uses_slots",
]
