"""Vector rearrangement (Section 3.5.2), after Bárány and Fiala, and Sevastyanov."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from ._errors import HopperError
from ._hopper import POLICIES
from ._prefix import rearranged
from ._schedule import Schedule
from ._simulate import simulate
from ._unit import Placement, Unit

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ._workload import HopWorkload

__all__ = ["rearrange"]

_ROUNDING = 1e-9


def rearrange(workload: HopWorkload) -> Schedule:
    """Schedule an open shop so that it is optimal if the busiest worker has enough to do.

    Lay the epoch of ``L_max`` seconds (equation 3.3) out as a circle. Loads are made equal by idle stretches of at
    most ``T_max`` (equation 3.4), and all workers take the configurations in one cyclic order, without a pause, each
    worker a little later than the one before. The order is such that two workers are never more than
    ``(p - 1) T_max`` apart in what they have done of it, so a lag of that and a unit keeps a configuration from being
    on two at once; a lag is lengthened, by less than a unit, until some unit begins where the circle is cut open.
    The circle has room for all lags if ``L_max >= (p^2 + p - 1) T_max``, and often before; the makespan then is
    ``L_max``. Else the list schedule is returned: as no worker in it idles that could train, its makespan is at most
    ``L_max + (p - 1) T_max``.

    Parameters
    ----------
    workload : HopWorkload
        Each worker holds one partition, and nobody else does.

    Returns
    -------
    Schedule
        ``method`` says which of the two it is.

    Raises
    ------
    HopperError
        It is no open shop.

    Examples
    --------
    >>> from optimizer.hopper import HopWorkload
    >>> found = rearrange(HopWorkload(np.random.default_rng(0).uniform(1, 2, (30, 3))))
    >>> found.method, found.optimal, round(found.ratio, 6)
    ('vector rearrangement', True, 1.0)
    """
    if not workload.open_shop:
        raise HopperError(
            "vector rearrangement takes an open shop: each worker holds one partition, which nobody else holds; "
            "simulate() takes any"
        )
    held = workload.holds.argmax(axis=1)
    circle = _circle(workload.times)
    if circle is None:
        listed = simulate(workload, POLICIES[0])
        return replace(listed, optimal=listed.makespan <= workload.lower_bound * (1 + _ROUNDING))
    placements = tuple(
        Placement(
            Unit(config, workload.partitions[held[column]]),
            worker,
            float(circle[row, column]),
            float(circle[row, column] + workload.times[row, column]),
        )
        for row, config in enumerate(workload.configs)
        for column, worker in enumerate(workload.workers)
    )
    return Schedule(placements, workload.lower_bound, optimal=True, method="vector rearrangement")


def _circle(times: NDArray[np.float64]) -> NDArray[np.float64] | None:
    """The starts of units, configurations x workers, in a schedule of ``L_max`` seconds, if its lags fit."""
    count, workers = times.shape
    length = float(times.sum(axis=0).max())
    slack = _ROUNDING * length
    padded = _padded(times, length)
    order = rearranged(padded[:, 1:] - padded[:, :1])
    ends = np.cumsum(padded[order], axis=0)
    starts = ends - padded[order]
    real = order < count
    shift = np.zeros(workers)
    for worker in range(1, workers):
        before = ends[real, worker - 1] - starts[real, worker]
        least = shift[worker - 1] + float(before.max())
        # Shifted by as much as leads from a start to the end of the circle, the unit of that start begins at 0.
        cuts = length - starts[:, worker]
        enough = cuts[cuts >= least - slack]
        if not len(enough):
            return None
        shift[worker] = enough.min()
    if length - shift[-1] < float((ends[real, -1] - starts[real, 0]).max()) - slack:
        return None
    laid = starts + shift
    laid = np.where(laid >= length - slack, laid - length, laid)
    found = np.zeros_like(times)
    found[order[real]] = np.maximum(laid[real], 0.0)
    return found


def _padded(times: NDArray[np.float64], length: float) -> NDArray[np.float64]:
    """Rows of idle stretches appended, none longer than a unit, until every worker's column adds up to ``length``."""
    lacking = length - times.sum(axis=0)
    longest = float(times.max())
    rows = [times]
    while lacking.max() > _ROUNDING * length:
        row = np.minimum(lacking, longest)
        rows.append(row[None])
        lacking = lacking - row
    return np.vstack(rows)
