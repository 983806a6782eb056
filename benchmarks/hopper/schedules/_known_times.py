"""Unit times that are known before the epoch."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from optimizer.hopper import UnitTimes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from benchmarks.hopper.schedules._workload import HopWorkload

__all__ = ["KnownTimes"]


class KnownTimes(UnitTimes):
    """Exact unit times of a workload; those of configurations and workers that it does not have are learned.

    Parameters
    ----------
    workload : HopWorkload
        Workload with the true unit times.
    """

    def __init__(self, workload: HopWorkload) -> None:
        super().__init__()
        rows = [self.config(name) for name in workload.configs]
        columns = [self.worker(name) for name in workload.workers]
        logs = np.log(workload.times)
        # Factors for configurations and workers that join later, which the table does not have.
        self._sums[np.ix_(rows, columns)] = logs
        self._counts[np.ix_(rows, columns)] = 1
        self._measured[rows] = True
        self._cost[rows] = logs.mean(axis=1)
        self._slow[columns] = logs.mean(axis=0) - logs.mean()
        self._scale = float(np.log(np.exp(self._cost[rows]).mean()))
        self._timed = frozenset(workload.workers)
        self._table = dict(zip(workload.configs, workload.times, strict=True))

    def table(self, configs: Sequence[str], workers: Sequence[str]) -> NDArray[np.float64] | None:
        """Return known seconds, configurations x workers; ``None`` if one of them is not known."""
        if not (self._table.keys() >= set(configs) and self._timed >= set(workers)):
            return None
        columns = [self._workers[name] for name in workers]
        return np.array([self._table[name][columns] for name in configs]).reshape(len(configs), len(columns))
