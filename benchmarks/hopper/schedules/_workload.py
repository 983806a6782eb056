"""Input of a scheduler: unit times, and the workers that hold each partition."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.hopper.schedules._bounds import lower_bound
from optimizer.hopper import HopperError
from optimizer.hopper._errors import unknown

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from numpy.typing import NDArray

__all__ = ["HopWorkload"]


@dataclass(frozen=True, slots=True, eq=False)
class HopWorkload:
    """Epoch to be scheduled, with known unit times.

    Parameters
    ----------
    times : array of float, configurations x workers
        Seconds that a unit of the configuration takes on the worker, over any partition (``T_ij``).
    configs : tuple of str
        Names of the rows; by default ``c0``, ``c1``, ...
    workers : tuple of str
        Names of the columns; by default ``w0``, ``w1``, ...
    availability : mapping of int to collection of str
        Workers that hold each partition; by default worker ``j`` holds partition ``j`` alone, which makes the problem
        an open shop (Section 3.5.1).

    Raises
    ------
    HopperError
        There is no unit; a time is not a positive number of seconds; the number of names differs from that of rows or
        columns; a name appears twice; no worker holds a partition; a holder is not a worker.

    Examples
    --------
    Figure 3.5, where a unit is a third of an epoch:

    >>> figure = HopWorkload(np.repeat([[6.0], [3], [3], [3], [6]], 3, axis=1) / 3, configs=tuple("ABCDE"))
    >>> figure.lower_bound
    7.0
    >>> print(figure.explain())
    5 configurations over 3 partitions on 3 workers, 1 worker per partition
      unit times 1 to 2 s, 21 s in all
      no schedule is shorter than 7 s: the longest configuration takes at least 6 s, the workers 7 s
    """

    times: NDArray[np.float64]
    configs: tuple[str, ...] = ()
    workers: tuple[str, ...] = ()
    availability: Mapping[int, Collection[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        times = np.array(self.times, dtype=float)
        if times.ndim != 2 or not times.size:
            raise HopperError(f"times of shape {times.shape}: configurations x workers, at least one of each")
        if not (np.isfinite(times) & (times > 0)).all():
            wrong = times[~(np.isfinite(times) & (times > 0))][0]
            raise HopperError(f"times has {wrong:g}: every unit takes a positive number of seconds")
        times.setflags(write=False)
        configs = tuple(self.configs) or tuple(f"c{row}" for row in range(times.shape[0]))
        workers = tuple(self.workers) or tuple(f"w{column}" for column in range(times.shape[1]))
        for axis, names, count in (("configs", configs, times.shape[0]), ("workers", workers, times.shape[1])):
            if len(names) != count:
                raise HopperError(f"{len(names)} {axis} for times of shape {times.shape}: {count} names")
            name, times_named = Counter(names).most_common(1)[0]
            if times_named > 1:
                raise HopperError(f"{axis} has {name!r} {times_named} times; give each its own name")
        availability = self.availability or {place: (name,) for place, name in enumerate(workers)}
        holders_of = {partition: frozenset(availability[partition]) for partition in sorted(availability)}
        for partition, holders in holders_of.items():
            if not holders:
                raise HopperError(f"partition {partition} is on no worker: no configuration could finish its epoch")
            for name in sorted(holders - set(workers)):
                raise unknown("worker", name, workers)
        for name, value in (
            ("times", times),
            ("configs", configs),
            ("workers", workers),
            ("availability", MappingProxyType(holders_of)),
        ):
            object.__setattr__(self, name, value)

    @property
    def partitions(self) -> tuple[int, ...]:
        """Partitions, in ascending order."""
        return tuple(self.availability)

    @property
    def open_shop(self) -> bool:
        """Whether each worker holds one partition and each partition is on one worker."""
        holders = [name for names in self.availability.values() for name in names]
        return len(holders) == len(self.availability) == len(self.workers) == len(set(holders))

    @property
    def holds(self) -> NDArray[np.bool_]:
        """Whether a worker holds a partition: booleans, workers x partitions."""
        return np.array([[name in holders for holders in self.availability.values()] for name in self.workers])

    def table(self) -> dict[tuple[str, str], float]:
        """Return the seconds of a unit by configuration and worker."""
        return {
            (config, worker): seconds
            for config, row in zip(self.configs, self.times.tolist(), strict=True)
            for worker, seconds in zip(self.workers, row, strict=True)
        }

    @property
    def lower_bound(self) -> float:
        """Seconds that no schedule can be shorter than: the longest configuration, or the busiest worker.

        Both are exact for an open shop. With replicas each unit of a configuration counts at its fastest holder, and
        the busiest worker is bounded by a relaxation that may split units; see
        :func:`benchmarks.hopper.schedules._bounds.lower_bound`.
        """
        return max(lower_bound(self.times, self.holds))

    def explain(self) -> str:
        """Describe the workload: its size, its unit times and its lower bound.

        Returns
        -------
        str
            Lines of text, without a newline at the end.
        """
        longest, busiest = lower_bound(self.times, self.holds)
        copies = sorted({len(holders) for holders in self.availability.values()})
        holders_each = (
            f"{copies[0]} worker" + ("s" if copies[0] > 1 else "")
            if len(copies) == 1
            else f"{copies[0]} to {copies[-1]} workers"
        )
        fastest = sum(float(self.times[:, column].min(axis=1).sum()) for column in self.holds.T)
        data = f"{len(self.availability)} partitions on {len(self.workers)} workers, {holders_each} per partition"
        seconds = f"unit times {self.times.min():g} to {self.times.max():g} s, {fastest:g} s in all"
        bound = f"the longest configuration takes at least {longest:g} s, the workers {busiest:g} s"
        return (
            f"{len(self.configs)} configurations over {data}\n"
            f"  {seconds}{'' if copies[-1] == 1 else ' on the fastest holders'}\n"
            f"  no schedule is shorter than {max(longest, busiest):g} s: {bound}"
        )
