"""Lower bounds on the seconds of an epoch."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["lower_bound"]


def lower_bound(times: NDArray[np.float64], holds: NDArray[np.bool_]) -> tuple[float, float]:
    """Compute two relaxations, neither longer than any schedule.

    The first: a configuration's units run one after the other, each at best on the fastest worker that holds its
    partition. The second, for any weights ``y`` of the workers that add up to 1: if worker ``j`` has finished its
    units by ``C``, then ``C = sum_j y_j C`` is at least the sum over all units of ``y_j T_ij`` where each ran, and so
    at least the sum of their minima over the workers that may run them. (By duality the best ``y`` is the linear
    program that splits units at will.) Tried are each worker alone, which without replicas is its load, and each set
    of holders and all workers together, weighted by their speeds.

    Parameters
    ----------
    times : array of float, configurations x workers
    holds : array of bool, workers x partitions

    Returns
    -------
    tuple of float
        Seconds of the longest configuration, and of the workers.

    Examples
    --------
    Two configurations and one partition that both workers hold, one of them twice as fast:

    >>> lower_bound(np.array([[1.0, 2.0], [1.0, 2.0]]), np.array([[True], [True]]))
    (1.0, 1.3333333333333333)
    """
    kinds, counts = np.unique(holds.T, axis=0, return_counts=True)
    longest = sum(count * times[:, kind].min(axis=1) for kind, count in zip(kinds, counts, strict=True)).max()
    speeds = 1 / np.exp(np.log(times).mean(axis=0))
    groups = np.eye(len(holds), dtype=bool)
    if (kinds.sum(axis=1) > 1).any():
        groups = np.unique(np.vstack([groups, kinds, np.ones((1, len(holds)), bool)]), axis=0)
    busiest = 0.0
    for group in groups:
        weights = np.where(group, speeds, 0.0) / speeds[group].sum()
        weighted = times * weights
        least = sum(
            count * float(weighted[:, kind].min(axis=1).sum()) for kind, count in zip(kinds, counts, strict=True)
        )
        busiest = max(busiest, float(least))
    return float(longest), busiest
