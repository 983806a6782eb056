"""Unit times: known, or learned while units run."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from ._errors import HopperError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from ._unit import Unit
    from ._workload import HopWorkload

__all__ = ["UnitTimes"]

# How many measured units a prior weighs as much as. Above 0, or the first units, each of a configuration never seen
# before, would say everything of the configuration and nothing of the worker.
_PRIOR_UNITS = 0.25


class UnitTimes:
    """Predicts what a unit takes: the cost of its configuration, times the slowness of its worker, times its rows.

    Section 3.5.4 takes unit times to be such products. Both factors are fitted to the logarithms of measured seconds,
    a row and a column at a time, in time linear in configurations plus workers. What was measured over and over for a
    configuration on a worker is then no better known than its factors say, but one slow unit also misleads no more.

    Parameters
    ----------
    costs : mapping of str to float, optional
        What is known of configurations beforehand, FLOPs for example; only their proportions count. A configuration
        that is not there is taken for an average one.
    rows : mapping of int to int, optional
        Of each partition. By default partitions are equal.

    Raises
    ------
    HopperError
        A cost or a number of rows that is not positive.

    Examples
    --------
    >>> from optimizer.hopper import Unit
    >>> times = UnitTimes({"small": 1.0, "large": 3.0})
    >>> times.predict(Unit("large", 0), "w0")  # nothing was measured: in units of an average configuration
    1.5
    >>> times.observe(Unit("small", 0), "w0", 10.0)
    >>> round(times.predict(Unit("large", 0), "w1"))
    30
    """

    def __init__(self, costs: Mapping[str, float] | None = None, *, rows: Mapping[int, int] | None = None) -> None:
        for what, given in (("cost of", costs or {}), ("rows of partition", rows or {})):
            for name, number in given.items():
                if not (math.isfinite(number) and number > 0):
                    raise HopperError(f"{what} {name}: {number}; give a positive number, or leave it out")
        mean = math.fsum(costs.values()) / len(costs) if costs else 1.0
        self._priors = {name: math.log(cost / mean) for name, cost in (costs or {}).items()}
        average = sum(rows.values()) / len(rows) if rows else 1.0
        self._rows = {partition: number / average for partition, number in (rows or {}).items()}
        self._table: dict[str, NDArray[np.float64]] | None = None
        self._timed: frozenset[str] = frozenset()
        self._configs: dict[str, int] = {}
        self._workers: dict[str, int] = {}
        # Sums of logarithms of measured seconds, and how many: configurations x workers, with room to grow.
        self._sums, self._counts = np.zeros((8, 8)), np.zeros((8, 8))
        self._prior, self._cost, self._slow = np.zeros(8), np.zeros(8), np.zeros(8)
        self._measured = np.zeros(8, dtype=bool)
        self._scale = 0.0

    @classmethod
    def known(cls, workload: HopWorkload) -> UnitTimes:
        """The unit times of a workload, exactly; learned are those of whom it does not have.

        Parameters
        ----------
        workload : HopWorkload

        Returns
        -------
        UnitTimes
        """
        found = cls()
        rows = [found.config(name) for name in workload.configs]
        columns = [found.worker(name) for name in workload.workers]
        logs = np.log(workload.times)
        # For configurations and workers that join later, whom the table does not have.
        found._sums[np.ix_(rows, columns)] = logs
        found._counts[np.ix_(rows, columns)] = 1
        found._measured[rows] = True
        found._cost[rows] = logs.mean(axis=1)
        found._slow[columns] = logs.mean(axis=0) - logs.mean()
        found._scale = float(np.log(np.exp(found._cost[rows]).mean()))
        found._timed = frozenset(workload.workers)
        found._table = dict(zip(workload.configs, workload.times, strict=True))
        return found

    def observe(self, unit: Unit, worker: str, seconds: float) -> None:
        """Learn from a unit that has ended.

        Parameters
        ----------
        unit : Unit
        worker : str
        seconds : float
            A unit that took no time a clock could tell is counted as a microsecond.

        Raises
        ------
        HopperError
            ``seconds`` is negative or not finite.
        """
        if not (math.isfinite(seconds) and seconds >= 0):
            raise HopperError(f"{unit} took {seconds} seconds: not a time")
        if self.table([unit.config], [worker]) is not None:
            return
        row, column = self.config(unit.config), self.worker(worker)
        self._sums[row, column] += math.log(max(seconds, 1e-6) / self._rows.get(unit.partition, 1.0))
        self._counts[row, column] += 1
        self._fit(row, column)

    def predict(self, unit: Unit, worker: str) -> float:
        """Seconds that a unit will take; a mere proportion before anything was measured.

        Parameters
        ----------
        unit : Unit
        worker : str

        Returns
        -------
        float
            Positive.
        """
        if (table := self.table([unit.config], [worker])) is not None:
            return float(table[0, 0])
        row, column = np.array([self.config(unit.config)]), np.array([self.worker(worker)])
        return float(self.costs(row)[0] * self.slowness(column)[0] * self._rows.get(unit.partition, 1.0))

    def table(self, configs: Sequence[str], workers: Sequence[str]) -> NDArray[np.float64] | None:
        """Known seconds, configurations x workers; ``None`` where times are learned or one of them is not known."""
        table = self._table
        if table is None or not (table.keys() >= set(configs) and self._timed >= set(workers)):
            return None
        columns = [self._workers[name] for name in workers]
        return np.array([table[name][columns] for name in configs]).reshape(len(configs), len(columns))

    def costs(self, places: NDArray[np.intp]) -> NDArray[np.float64]:
        """The factors of configurations, which :meth:`config` has numbered."""
        found: NDArray[np.float64] = np.exp(self._cost[places] + np.where(self._measured[places], 0.0, self._scale))
        return found

    def slowness(self, places: NDArray[np.intp]) -> NDArray[np.float64]:
        """The factors of workers, which :meth:`worker` has numbered; around 1."""
        found: NDArray[np.float64] = np.exp(self._slow[places])
        return found

    def sizes(self, partitions: Sequence[int]) -> NDArray[np.float64]:
        """The factors of partitions, around 1."""
        return np.array([self._rows.get(partition, 1.0) for partition in partitions])

    def config(self, name: str) -> int:
        """The number of a configuration, from now on."""
        place = self._configs.get(name)
        if place is None:
            place = self._configs[name] = len(self._configs)
            if place == len(self._sums):
                self._sums, self._counts = (np.pad(one, ((0, place), (0, 0))) for one in (self._sums, self._counts))
                self._prior, self._cost = np.pad(self._prior, (0, place)), np.pad(self._cost, (0, place))
                self._measured = np.pad(self._measured, (0, place))
            self._prior[place] = self._cost[place] = self._priors.get(name, 0.0)
        return place

    def worker(self, name: str) -> int:
        """The number of a worker, from now on."""
        place = self._workers.get(name)
        if place is None:
            place = self._workers[name] = len(self._workers)
            if place == len(self._slow):
                self._sums, self._counts = (np.pad(one, ((0, 0), (0, place))) for one in (self._sums, self._counts))
                self._slow = np.pad(self._slow, (0, place))
        return place

    def _fit(self, row: int, column: int) -> None:
        """One step of descent in the factors that a measurement touches."""
        count = len(self._configs)
        measured = self._measured[:count]
        if not measured[row]:
            if not measured.any():
                self._scale = float(self._sums[row, column]) - self._prior[row]
            measured[row] = True
        # The configuration first: what is new about it must not be laid to a worker that others know well.
        counts = self._counts[row]
        of_row = float((self._sums[row] - counts * self._slow).sum())
        expected = self._scale + self._prior[row]
        self._cost[row] = (of_row + _PRIOR_UNITS * expected) / (counts.sum() + _PRIOR_UNITS)
        counts = self._counts[:count, column]
        excess = self._sums[:count, column] - counts * self._cost[:count]
        self._slow[column] = excess.sum() / (counts.sum() + _PRIOR_UNITS)
        # The mean of seconds, not of their logarithms: most of the work is in the large ones.
        self._scale = float(np.log(np.exp(self._cost[:count][measured] - self._prior[:count][measured]).mean()))
