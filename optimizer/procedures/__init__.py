"""Model-selection procedures: which configurations start, go on, pause and stop, epoch by epoch (Cerebro, 3.3)."""

from ._asha import ASHA
from ._decisions import Continue, Decision, Pause, Source, Start, Stop
from ._documents import decision_document, read_decision, read_result, result_document
from ._errors import DivergedLogError, LogError, ProcedureError
from ._evolution import AgingEvolution
from ._front import best_first, front
from ._halving import SuccessiveHalving
from ._hyperband import Hyperband
from ._ledger import Ledger
from ._limits import Limits
from ._listed import Listed
from ._log import Exchange, replay
from ._objectives import Objective, objectives_of
from ._pbt import PBT
from ._plan import Offer, Plan, Stage
from ._procedure import Procedure
from ._random import RandomSearch
from ._replay import Replay
from ._requests import Added, Stopped, UserRequest
from ._results import Ended, EpochResult, OutOfTime, Result
from ._sampled import Sampled
from ._sampling import ListedSampler, RandomSampler, Sampler
from ._schedule import Schedule, Segment, schedule_of
from ._sequential import Sequential
from ._simulate import simulate
from ._simulation import Simulation, Span, Visit
from ._stoppers import MedianRule, Patience, Stopper, Threshold
from ._trial import WORST, Trial

__all__ = [
    "ASHA",
    "PBT",
    "WORST",
    "Added",
    "AgingEvolution",
    "Continue",
    "Decision",
    "DivergedLogError",
    "Ended",
    "EpochResult",
    "Exchange",
    "Hyperband",
    "Ledger",
    "Limits",
    "Listed",
    "ListedSampler",
    "LogError",
    "MedianRule",
    "Objective",
    "Offer",
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
    "Simulation",
    "Source",
    "Span",
    "Stage",
    "Start",
    "Stop",
    "Stopped",
    "Stopper",
    "SuccessiveHalving",
    "Threshold",
    "Trial",
    "UserRequest",
    "Visit",
    "best_first",
    "decision_document",
    "front",
    "objectives_of",
    "read_decision",
    "read_result",
    "replay",
    "result_document",
    "schedule_of",
    "simulate",
]
