"""Serving of many models within deadlines: profiles, plans of backends, dispatch and simulation.

The global scheduler of Nexus (Shen, *System for Serving Deep Neural Networks Efficiently*, chapter 3), with
its equation 3.1 mended. Times are milliseconds, rates are requests per second.
"""

from ._balancing import BALANCERS, Balancer, DeficitRoundRobin, TwoChoices, WeightedRandom, balancer
from ._dispatch import POLICIES, Dispatch, Policy, deferred, earliest_first, maximal_window, sliding_window
from ._errors import InfeasibleError, ServingError
from ._plan import NodePlan, Placement, ServingPlan
from ._planner import lower_bound, plan
from ._profile import BatchingProfile
from ._query import Query
from ._session import Backend, Session
from ._split import QuerySplit, backends_for, resplit, split, split_evenly

__all__ = [
    "BALANCERS",
    "POLICIES",
    "Backend",
    "Balancer",
    "BatchingProfile",
    "DeficitRoundRobin",
    "Dispatch",
    "InfeasibleError",
    "NodePlan",
    "Placement",
    "Policy",
    "Query",
    "QuerySplit",
    "ServingError",
    "ServingPlan",
    "Session",
    "TwoChoices",
    "WeightedRandom",
    "backends_for",
    "balancer",
    "deferred",
    "earliest_first",
    "lower_bound",
    "maximal_window",
    "plan",
    "resplit",
    "sliding_window",
    "split",
    "split_evenly",
]
