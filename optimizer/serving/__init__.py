"""Serving of many models within deadlines: profiles, plans of backends, dispatch and simulation.

The global scheduler of Nexus (Shen, *System for Serving Deep Neural Networks Efficiently*, chapter 3), with
its equation 3.1 mended. Times are milliseconds, rates are requests per second.
"""

from optimizer.serving._arrivals import arrival_times
from optimizer.serving._balancing import BALANCERS, Balancer, DeficitRoundRobin, TwoChoices, WeightedRandom, balancer
from optimizer.serving._call_counts import CallCounts, CallTrace
from optimizer.serving._dispatch import (
    POLICIES,
    Dispatch,
    Policy,
    deferred,
    earliest_first,
    maximal_window,
    sliding_window,
)
from optimizer.serving._epochs import Replan, replan
from optimizer.serving._errors import InfeasibleError, ServingError
from optimizer.serving._front_ends import FrontEnds
from optimizer.serving._oblivious import plan_batch_oblivious
from optimizer.serving._outcome import Outcome, Served
from optimizer.serving._plan import NodePlan, Placement, ServingPlan
from optimizer.serving._planner import lower_bound, plan
from optimizer.serving._profile import BatchingProfile
from optimizer.serving._query import Query
from optimizer.serving._session import Backend, Session
from optimizer.serving._simulate import simulate
from optimizer.serving._split import QuerySplit, backends_for, resplit, split, split_evenly
from optimizer.serving._spread import spread

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
