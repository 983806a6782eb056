"""Vector rearrangement (Section 3.5.2), after Bárány and Fiala, and Sevastyanov."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.hopper.schedules._prefix_sums import rearranged
from benchmarks.hopper.schedules._schedule import Schedule
from benchmarks.hopper.schedules._simulation import simulate
from optimizer.hopper import POLICIES, HopperError, Placement, Unit

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from benchmarks.hopper.schedules._workload import HopWorkload

__all__ = ["rearrange"]

_ROUNDING = 1e-9


def rearrange(workload: HopWorkload) -> Schedule:
    """Schedule an open shop, optimally if the busiest worker has enough units.

    The epoch of ``L_max`` seconds (equation 3.3) is laid out as a circle. Idle stretches of at most ``T_max``
    (equation 3.4) make all loads equal. All workers train the configurations in one cyclic order, without a pause,
    each worker with a lag behind the previous one. The order keeps the progress of any two workers within
    ``(p - 1) T_max`` of each other, so a lag of that plus one unit keeps a configuration from training on two workers
    at once. Each lag is then lengthened, by less than a unit, until some unit begins where the circle is cut open.

    The lags fit into the circle if ``L_max >= (p^2 + p - 1) T_max``, and often for smaller ``L_max``; the makespan
    then is ``L_max``. Otherwise the list schedule is returned: it leaves no worker idle that could train, so its
    makespan is at most ``L_max + (p - 1) T_max``.

    Parameters
    ----------
    workload : HopWorkload
        An open shop: each worker holds one partition, which no other worker holds.

    Returns
    -------
    Schedule
        ``method`` names the algorithm that made it.

    Raises
    ------
    HopperError
        The workload is not an open shop.

    Examples
    --------
    >>> from benchmarks.hopper.schedules import HopWorkload
    >>> schedule = rearrange(HopWorkload(np.random.default_rng(0).uniform(1, 2, (30, 3))))
    >>> schedule.method, schedule.optimal, round(schedule.ratio, 6)
    ('vector rearrangement', True, 1.0)
    """
    if not workload.open_shop:
        raise HopperError(
            "vector rearrangement needs an open shop: each worker holds one partition, which no other worker holds; "
            "simulate() takes any workload"
        )
    partition_of = workload.holds.argmax(axis=1)
    starts = _circular_starts(workload.times)
    if starts is None:
        listed = simulate(workload, POLICIES[0])
        return replace(listed, optimal=listed.makespan <= workload.lower_bound * (1 + _ROUNDING))
    placements = tuple(
        Placement(
            Unit(config, workload.partitions[partition_of[column]]),
            worker,
            float(starts[row, column]),
            float(starts[row, column] + workload.times[row, column]),
        )
        for row, config in enumerate(workload.configs)
        for column, worker in enumerate(workload.workers)
    )
    return Schedule(placements, workload.lower_bound, optimal=True, method="vector rearrangement")


def _circular_starts(times: NDArray[np.float64]) -> NDArray[np.float64] | None:
    """Compute the starts of units, configurations x workers, in ``L_max`` seconds; ``None`` if the lags do not fit."""
    count, workers = times.shape
    length = float(times.sum(axis=0).max())
    tolerance = _ROUNDING * length
    padded = _padded(times, length)
    order = rearranged(padded[:, 1:] - padded[:, :1])
    ends = np.cumsum(padded[order], axis=0)
    starts = ends - padded[order]
    real = order < count
    shift = np.zeros(workers)
    for worker in range(1, workers):
        before = ends[real, worker - 1] - starts[real, worker]
        least = shift[worker - 1] + float(before.max())
        # Each of these shifts moves the start of one unit to the end of the circle, where it begins again at 0.
        cuts = length - starts[:, worker]
        feasible = cuts[cuts >= least - tolerance]
        if not len(feasible):
            return None
        shift[worker] = feasible.min()
    if length - shift[-1] < float((ends[real, -1] - starts[real, 0]).max()) - tolerance:
        return None
    shifted = starts + shift
    shifted = np.where(shifted >= length - tolerance, shifted - length, shifted)
    unit_starts = np.zeros_like(times)
    unit_starts[order[real]] = np.maximum(shifted[real], 0.0)
    return unit_starts


def _padded(times: NDArray[np.float64], length: float) -> NDArray[np.float64]:
    """Append rows of idle stretches, none longer than a unit, until every worker's column adds up to ``length``."""
    lacking = length - times.sum(axis=0)
    longest = float(times.max())
    rows = [times]
    while lacking.max() > _ROUNDING * length:
        row = np.minimum(lacking, longest)
        rows.append(row[None])
        lacking = lacking - row
    return np.vstack(rows)
