"""Model hopper parallelism: the online scheduler of units on workers (Cerebro, Section 3.5)."""

from ._errors import HopperError, ScheduleError
from ._hopper import POLICIES, Hopper
from ._times import UnitTimes
from ._unit import Placement, Unit

__all__ = ["POLICIES", "Hopper", "HopperError", "Placement", "ScheduleError", "Unit", "UnitTimes"]
