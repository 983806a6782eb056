"""Model hopper parallelism: where each configuration trains, and when it hops (Cerebro, Section 3.5)."""

from ._communication import communication_costs
from ._errors import HopperError, ScheduleError
from ._hopper import POLICIES, Hopper
from ._milp import schedule_milp
from ._rearrange import rearrange
from ._schedule import Schedule
from ._simulate import simulate
from ._times import UnitTimes
from ._unit import Placement, Unit
from ._workload import HopWorkload

__all__ = [
    "POLICIES",
    "HopWorkload",
    "Hopper",
    "HopperError",
    "Placement",
    "Schedule",
    "ScheduleError",
    "Unit",
    "UnitTimes",
    "communication_costs",
    "rearrange",
    "schedule_milp",
    "simulate",
]
