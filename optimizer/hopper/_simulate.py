"""An epoch in no time: the online scheduler against known unit times (Section 3.5.4)."""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

from ._errors import ScheduleError
from ._hopper import POLICIES, Hopper
from ._schedule import Schedule
from ._times import UnitTimes
from ._unit import Placement

if TYPE_CHECKING:
    from ._unit import Unit
    from ._workload import HopWorkload

__all__ = ["drive", "simulate"]

# Relative: units that end together but for rounding free their workers together.
_TOGETHER = 1e-12


def simulate(
    workload: HopWorkload, policy: str = POLICIES[0], seed: int = 0, *, times: UnitTimes | None = None
) -> Schedule:
    """Run an epoch by events, with the :class:`Hopper` that a live coordinator drives.

    Parameters
    ----------
    workload : HopWorkload
        What units really take.
    policy : str
        One of :data:`POLICIES`.
    seed : int
    times : UnitTimes, optional
        What the scheduler knows of that; by default all of it. ``UnitTimes()`` lets it learn.

    Returns
    -------
    Schedule

    Raises
    ------
    HopperError
        There is no such policy.

    Examples
    --------
    Figure 3.5, where model hopping takes 7 and task parallelism 9:

    >>> import numpy as np
    >>> from optimizer.hopper import HopWorkload
    >>> epochs = np.repeat([[6.0], [3], [3], [3], [6]], 3, axis=1)
    >>> simulate(HopWorkload(epochs / 3)).makespan
    7.0
    """
    known = UnitTimes.known(workload) if times is None else times
    hopper = Hopper(workload.configs, workload.availability, policy=policy, times=known, seed=seed)
    return drive(hopper, workload, policy)


def drive(hopper: Hopper, workload: HopWorkload, method: str) -> Schedule:
    """Run what a scheduler has to do, alone with its workers.

    Parameters
    ----------
    hopper : Hopper
    workload : HopWorkload
        What units take.
    method : str
        For the schedule to say.

    Returns
    -------
    Schedule

    Raises
    ------
    ScheduleError
        The scheduler stands still with units left.
    """
    placements: list[Placement] = []
    events: list[tuple[float, Unit, float]] = []
    seconds = workload.table()
    now = 0.0
    while not hopper.done:
        for worker in hopper.idle_workers:
            unit = hopper.next_unit(worker)
            if unit is not None:
                took = seconds[unit.config, worker]
                placements.append(Placement(unit, worker, now, now + took))
                heapq.heappush(events, (now + took, unit, took))
        if not events:
            raise ScheduleError(f"{hopper.remaining} units are left and no worker can train one", "progress")
        now = events[0][0]
        while events and events[0][0] <= now * (1 + _TOGETHER):
            _, unit, took = heapq.heappop(events)
            hopper.finish(unit, took)
    return Schedule(tuple(placements), workload.lower_bound, method=method)
