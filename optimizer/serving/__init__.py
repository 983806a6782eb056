"""Serving of many models within deadlines: profiles, plans of backends, dispatch and simulation.

The global scheduler of Nexus (Shen, *System for Serving Deep Neural Networks Efficiently*, chapter 3), with
its equation 3.1 mended. Times are milliseconds, rates are requests per second.
"""

from ._arrivals import arrival_times
from ._balancing import BALANCERS, Balancer, DeficitRoundRobin, TwoChoices, WeightedRandom, balancer
from ._call_counts import CallCounts, CallTrace
from ._dispatch import POLICIES, Dispatch, Policy, deferred, earliest_first, maximal_window, sliding_window
from ._epochs import Replan, replan
from ._errors import InfeasibleError, ServingError
from ._front_ends import FrontEnds
from ._oblivious import plan_batch_oblivious
from ._outcome import Outcome, Served
from ._plan import NodePlan, Placement, ServingPlan
from ._planner import lower_bound, plan
from ._profile import BatchingProfile
from ._query import Query
from ._session import Backend, Session
from ._simulate import simulate
from ._split import QuerySplit, backends_for, resplit, split, split_evenly
from ._spread import spread

__all__ = [
    "BALANCERS",
    "POLICIES",
    "Backend",
    "Balancer",
    "BatchingProfile",
    "CallCounts",
    "CallTrace",
    "DeficitRoundRobin",
    "Dispatch",
    "FrontEnds",
    "InfeasibleError",
    "NodePlan",
    "Outcome",
    "Placement",
    "Policy",
    "Query",
    "QuerySplit",
    "Replan",
    "Served",
    "ServingError",
    "ServingPlan",
    "Session",
    "TwoChoices",
    "WeightedRandom",
    "arrival_times",
    "backends_for",
    "balancer",
    "deferred",
    "earliest_first",
    "lower_bound",
    "maximal_window",
    "plan",
    "plan_batch_oblivious",
    "replan",
    "resplit",
    "simulate",
    "sliding_window",
    "split",
    "split_evenly",
    "spread",
]
