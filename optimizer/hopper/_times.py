"""Unit times, learned while units run."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from optimizer.hopper._errors import HopperError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from optimizer.hopper._unit import Unit

__all__ = ["UnitTimes"]

# Weight of a prior, in measured units. It is above 0, since otherwise the first units, each of a configuration not
# measured before, would set the factor of the configuration alone and tell nothing about the worker.
_PRIOR_UNITS = 0.25


class UnitTimes:
    """Predictor of unit times: cost of the configuration, times slowness of the worker, times rows of the partition.

    Section 3.5.4 models unit times as such products. Both factors are fitted to the logarithms of measured seconds, one
    row and one column per measurement, in time linear in configurations plus workers. A prediction comes from the
    factors alone, even for a configuration and a worker that were measured together often; in return one slow unit
    misleads little. ``costs`` are relative, FLOPs for example; a configuration without one counts as average. Without
    ``rows`` partitions are equal.

    Raises
    ------
    HopperError
        A cost or a number of rows is not positive.

    Examples
    --------
    >>> from optimizer.hopper import Unit
    >>> times = UnitTimes({"small": 1.0, "large": 3.0})
    >>> times.predict(Unit("large", 0), "w0")  # not measured yet: relative to an average configuration
    1.5
    >>> times.observe(Unit("small", 0), "w0", 10.0)
    >>> round(times.predict(Unit("large", 0), "w1"))
    30
    """

    def __init__(self, costs: Mapping[str, float] | None = None, *, rows: Mapping[int, int] | None = None) -> None:
        for quantity, numbers in (("cost of", costs or {}), ("rows of partition", rows or {})):
            for name, number in numbers.items():
                if not (math.isfinite(number) and number > 0):
                    raise HopperError(f"{quantity} {name}: {number}; give a positive number, or leave it out")
        mean = math.fsum(costs.values()) / len(costs) if costs else 1.0
        self._priors = {name: math.log(cost / mean) for name, cost in (costs or {}).items()}
        average = sum(rows.values()) / len(rows) if rows else 1.0
        self._rows = {partition: number / average for partition, number in (rows or {}).items()}
        self._configs: dict[str, int] = {}
        self._workers: dict[str, int] = {}
        # Sums and counts of logarithms of measured seconds, configurations x workers, with room to grow.
        self._sums, self._counts = np.zeros((8, 8)), np.zeros((8, 8))
        self._prior, self._cost, self._slow = np.zeros(8), np.zeros(8), np.zeros(8)
        self._measured = np.zeros(8, dtype=bool)
        self._scale = 0.0

    def observe(self, unit: Unit, worker: str, seconds: float) -> None:
        """Learn from a unit that has ended.

        Less than a microsecond counts as one. Raise HopperError if ``seconds`` is negative or not finite.
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
        """Predict the seconds of a unit; before any measurement, relative to an average configuration."""
        if (table := self.table([unit.config], [worker])) is not None:
            return float(table[0, 0])
        row, column = np.array([self.config(unit.config)]), np.array([self.worker(worker)])
        return float(self.costs(row)[0] * self.slowness(column)[0] * self._rows.get(unit.partition, 1.0))

    def table(self, configs: Sequence[str], workers: Sequence[str]) -> NDArray[np.float64] | None:
        """Return known seconds, configurations x workers; ``None``, because times are learned. Subclasses may know."""
        return None

    def costs(self, places: NDArray[np.intp]) -> NDArray[np.float64]:
        """Return the factors of configurations, by the numbers that :meth:`config` gave them."""
        factors: NDArray[np.float64] = np.exp(self._cost[places] + np.where(self._measured[places], 0.0, self._scale))
        return factors

    def slowness(self, places: NDArray[np.intp]) -> NDArray[np.float64]:
        """Return the factors of workers, around 1, by the numbers that :meth:`worker` gave them."""
        factors: NDArray[np.float64] = np.exp(self._slow[places])
        return factors

    def sizes(self, partitions: Sequence[int]) -> NDArray[np.float64]:
        """Return the factors of partitions, around 1."""
        return np.array([self._rows.get(partition, 1.0) for partition in partitions])

    def config(self, name: str) -> int:
        """Return the number of a configuration; a new one gets the next."""
        place = self._configs.get(name)
        if place is None:
            place = self._configs[name] = len(self._configs)
            if place == len(self._sums):
                self._sums, self._counts = (np.pad(table, ((0, place), (0, 0))) for table in (self._sums, self._counts))
                self._prior, self._cost = np.pad(self._prior, (0, place)), np.pad(self._cost, (0, place))
                self._measured = np.pad(self._measured, (0, place))
            self._prior[place] = self._cost[place] = self._priors.get(name, 0.0)
        return place

    def worker(self, name: str) -> int:
        """Return the number of a worker; a new one gets the next."""
        place = self._workers.get(name)
        if place is None:
            place = self._workers[name] = len(self._workers)
            if place == len(self._slow):
                self._sums, self._counts = (np.pad(table, ((0, 0), (0, place))) for table in (self._sums, self._counts))
                self._slow = np.pad(self._slow, (0, place))
        return place

    def _fit(self, row: int, column: int) -> None:
        """Take one descent step in the two factors that a measurement touches."""
        count = len(self._configs)
        measured = self._measured[:count]
        if not measured[row]:
            if not measured.any():
                self._scale = float(self._sums[row, column]) - self._prior[row]
            measured[row] = True
        # The configuration first: its own novelty must not count against a worker that is well measured.
        counts = self._counts[row]
        row_sum = float((self._sums[row] - counts * self._slow).sum())
        expected = self._scale + self._prior[row]
        self._cost[row] = (row_sum + _PRIOR_UNITS * expected) / (counts.sum() + _PRIOR_UNITS)
        counts = self._counts[:count, column]
        excess = self._sums[:count, column] - counts * self._cost[:count]
        self._slow[column] = excess.sum() / (counts.sum() + _PRIOR_UNITS)
        # The mean of seconds, not of their logarithms: the large ones make up most of the work.
        self._scale = float(np.log(np.exp(self._cost[:count][measured] - self._prior[:count][measured]).mean()))
