"""Model-selection procedures, which start, continue, pause and stop configurations epoch by epoch (Cerebro, 3.3)."""

from optimizer.procedures._asha import ASHA
from optimizer.procedures._configuration_list import Listed
from optimizer.procedures._decisions import Continue, Decision, Pause, Source, Start, Stop
from optimizer.procedures._documents import decision_document, read_decision, read_result, result_document
from optimizer.procedures._errors import DivergedLogError, LogError, ProcedureError
from optimizer.procedures._evolution import AgingEvolution
from optimizer.procedures._halving import SuccessiveHalving
from optimizer.procedures._hyperband import Hyperband
from optimizer.procedures._ledger import Ledger
from optimizer.procedures._limits import Limits
from optimizer.procedures._log import Exchange, replay
from optimizer.procedures._objectives import Objective, objectives_of
from optimizer.procedures._pareto import best_first, front
from optimizer.procedures._pbt import PBT
from optimizer.procedures._plain_data import plain, read_params, written_params
from optimizer.procedures._plan import Offer, Plan, Stage
from optimizer.procedures._procedure import Procedure
from optimizer.procedures._random import RandomSearch
from optimizer.procedures._replay import Replay
from optimizer.procedures._requests import Added, Extended, Origin, Stopped, UserRequest
from optimizer.procedures._results import Ended, EpochResult, OutOfTime, Result
from optimizer.procedures._sampled_procedure import Sampled
from optimizer.procedures._sampling import ListedSampler, RandomSampler, Sampler
from optimizer.procedures._schedule import Schedule, Segment, schedule_of
from optimizer.procedures._sequential import Sequential
from optimizer.procedures._spot import CostOption, Spot, cost_front
from optimizer.procedures._stoppers import MedianRule, Patience, Stopper, Threshold
from optimizer.procedures._trial import WORST, Trial

__all__ = [
    "ASHA",
    "PBT",
    "WORST",
    "Added",
    "AgingEvolution",
    "Continue",
    "CostOption",
    "Decision",
    "DivergedLogError",
    "Ended",
    "EpochResult",
    "Exchange",
    "Extended",
    "Hyperband",
    "Ledger",
    "Limits",
    "Listed",
    "ListedSampler",
    "LogError",
    "MedianRule",
    "Objective",
    "Offer",
    "Origin",
    "OutOfTime",
    "Patience",
    "Pause",
    "Plan",
    "Procedure",
    "ProcedureError",
    "RandomSampler",
    "RandomSearch",
    "Replay",
    "Result",
    "Sampled",
    "Sampler",
    "Schedule",
    "Segment",
    "Sequential",
    "Source",
    "Spot",
    "Stage",
    "Start",
    "Stop",
    "Stopped",
    "Stopper",
    "SuccessiveHalving",
    "Threshold",
    "Trial",
    "UserRequest",
    "best_first",
    "cost_front",
    "decision_document",
    "front",
    "objectives_of",
    "plain",
    "read_decision",
    "read_params",
    "read_result",
    "replay",
    "result_document",
    "schedule_of",
    "written_params",
]
