"""Simulation of an epoch: the online scheduler with known unit times (Section 3.5.4)."""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

from benchmarks.hopper.schedules._known_times import KnownTimes
from benchmarks.hopper.schedules._schedule import Schedule
from optimizer.hopper import POLICIES, Hopper, Placement, ScheduleError, UnitTimes

if TYPE_CHECKING:
    from benchmarks.hopper.schedules._workload import HopWorkload
    from optimizer.hopper import Unit

__all__ = ["drive", "simulate"]

# Relative tolerance: units whose ends differ by rounding alone free their workers together.
_TOGETHER = 1e-12


def simulate(
    workload: HopWorkload, policy: str = POLICIES[0], seed: int = 0, *, times: UnitTimes | None = None
) -> Schedule:
    """Simulate an epoch event by event, with the same :class:`Hopper` as a live coordinator.

    Parameters
    ----------
    workload : HopWorkload
        The true unit times.
    policy : str
        One of :data:`POLICIES`.
    seed : int
    times : UnitTimes, optional
        The unit times that the scheduler knows; by default the true ones. ``UnitTimes()`` lets it learn them.

    Returns
    -------
    Schedule

    Raises
    ------
    HopperError
        The policy is unknown.

    Examples
    --------
    Figure 3.5, where model hopping takes 7 and task parallelism 9 units of time:

    >>> import numpy as np
    >>> from benchmarks.hopper.schedules import HopWorkload
    >>> epochs = np.repeat([[6.0], [3], [3], [3], [6]], 3, axis=1)
    >>> simulate(HopWorkload(epochs / 3)).makespan
    7.0
    """
    known = KnownTimes(workload) if times is None else times
    hopper = Hopper(workload.configs, workload.availability, policy=policy, times=known, seed=seed)
    return drive(hopper, workload, policy)


def drive(hopper: Hopper, workload: HopWorkload, method: str) -> Schedule:
    """Run a scheduler until its epoch is done, in simulated time.

    Parameters
    ----------
    hopper : Hopper
    workload : HopWorkload
        The true unit times.
    method : str
        ``method`` of the schedule.

    Returns
    -------
    Schedule

    Raises
    ------
    ScheduleError
        Units remain, and the scheduler gives none to any worker.
    """
    placements: list[Placement] = []
    events: list[tuple[float, Unit, float]] = []
    seconds = workload.table()
    now = 0.0
    while not hopper.done:
        for worker in hopper.idle_workers:
            unit = hopper.next_unit(worker)
            if unit is not None:
                duration = seconds[unit.config, worker]
                placements.append(Placement(unit, worker, now, now + duration))
                heapq.heappush(events, (now + duration, unit, duration))
        if not events:
            raise ScheduleError(f"{hopper.remaining} units remain and no worker can train one", "progress")
        now = events[0][0]
        while events and events[0][0] <= now * (1 + _TOGETHER):
            _, unit, duration = heapq.heappop(events)
            hopper.finish(unit, duration)
    return Schedule(tuple(placements), workload.lower_bound, method=method)
