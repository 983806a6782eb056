"""Planning of serving: batching profiles, plans of backends, query splits and dispatch policies.

The global scheduler of Nexus (Shen, *System for Serving Deep Neural Networks Efficiently*, chapter 3), with equation
3.1 corrected for slow sessions. Times are milliseconds, rates are requests per second.
"""

from optimizer.serving._call_counts import CallCounts, CallTrace
from optimizer.serving._daily_budget import DailyBudget
from optimizer.serving._dispatch import (
    POLICIES,
    Dispatch,
    Policy,
    deferred,
    earliest_first,
    maximal_window,
    sliding_window,
)
from optimizer.serving._errors import InfeasibleError, ServingError
from optimizer.serving._plan import NodePlan, Placement, ServingPlan
from optimizer.serving._planner import lower_bound, plan
from optimizer.serving._profile import BatchingProfile
from optimizer.serving._query import Query
from optimizer.serving._query_split import QuerySplit, backends_for, resplit, split
from optimizer.serving._replanning import Replan, replan
from optimizer.serving._round_robin import DeficitRoundRobin
from optimizer.serving._session import Backend, Session
from optimizer.serving._spread import spread
from optimizer.serving._variants import Ladder, ladder_shares, meets_deadlines, variant_shares, with_shares

__all__ = [
    "POLICIES",
    "Backend",
    "BatchingProfile",
    "CallCounts",
    "CallTrace",
    "DailyBudget",
    "DeficitRoundRobin",
    "Dispatch",
    "InfeasibleError",
    "Ladder",
    "NodePlan",
    "Placement",
    "Policy",
    "Query",
    "QuerySplit",
    "Replan",
    "ServingError",
    "ServingPlan",
    "Session",
    "backends_for",
    "deferred",
    "earliest_first",
    "ladder_shares",
    "lower_bound",
    "maximal_window",
    "meets_deadlines",
    "plan",
    "replan",
    "resplit",
    "sliding_window",
    "split",
    "spread",
    "variant_shares",
    "with_shares",
]
