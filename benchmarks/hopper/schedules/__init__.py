"""Schedules of one epoch from known unit times: simulation, integer programs, vector rearrangement (Section 3.5)."""

from benchmarks.hopper.schedules._communication import communication_costs
from benchmarks.hopper.schedules._known_times import KnownTimes
from benchmarks.hopper.schedules._milp import schedule_milp
from benchmarks.hopper.schedules._rearrangement import rearrange
from benchmarks.hopper.schedules._schedule import Schedule
from benchmarks.hopper.schedules._simulation import drive, simulate
from benchmarks.hopper.schedules._workload import HopWorkload

__all__ = [
    "HopWorkload",
    "KnownTimes",
    "Schedule",
    "communication_costs",
    "drive",
    "rearrange",
    "schedule_milp",
    "simulate",
]
