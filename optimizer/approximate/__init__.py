"""Approximate model scheduling: the variant and the place of each request, within energy, memory and money.

The scheduler of MCDNN (Shen, *System for Serving Deep Neural Networks Efficiently*, chapter 4). Energy is in joules,
time in seconds, money in dollars.
"""

from optimizer.approximate._bound import upper_bound
from optimizer.approximate._cost_card import CostCard
from optimizer.approximate._cuts import SplitCut, split_cuts
from optimizer.approximate._errors import UnservableError
from optimizer.approximate._milp import best_schedule
from optimizer.approximate._problem import Budget, Problem, Task, Trace
from optimizer.approximate._request_budgets import request_budgets
from optimizer.approximate._schedule import MemoryEvent, Schedule
from optimizer.approximate._scheduler import Decision, Policy, Request, Scheduler, State
from optimizer.approximate._simulation import POLICIES, simulate
from optimizer.approximate._variant import Option, Split, Variant, pareto

__all__ = [
    "POLICIES",
    "Budget",
    "CostCard",
    "Decision",
    "MemoryEvent",
    "Option",
    "Policy",
    "Problem",
    "Request",
    "Schedule",
    "Scheduler",
    "Split",
    "SplitCut",
    "State",
    "Task",
    "Trace",
    "UnservableError",
    "Variant",
    "best_schedule",
    "pareto",
    "request_budgets",
    "simulate",
    "split_cuts",
    "upper_bound",
]
