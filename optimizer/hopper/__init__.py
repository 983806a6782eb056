"""Model hopper parallelism: the online scheduler of units on workers (Cerebro, Section 3.5)."""

from optimizer.hopper._errors import HopperError, ScheduleError
from optimizer.hopper._hopper import POLICIES, Hopper
from optimizer.hopper._times import UnitTimes
from optimizer.hopper._unit import Placement, Unit

__all__ = ["POLICIES", "Hopper", "HopperError", "Placement", "ScheduleError", "Unit", "UnitTimes"]
