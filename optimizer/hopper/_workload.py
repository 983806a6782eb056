"""What is to be scheduled: unit times, and which worker holds which partition."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np

from ._bound import lower_bound
from ._errors import HopperError, unknown

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from numpy.typing import NDArray

__all__ = ["HopWorkload"]


@dataclass(frozen=True, slots=True, eq=False)
class HopWorkload:
    """One epoch to be scheduled, with known unit times.

    Parameters
    ----------
    times : array of float, configurations x workers
        Seconds that a unit of the configuration takes on the worker, whichever partition it is of (``T_ij``).
    configs : tuple of str
        By default ``c0``, ``c1``, ...
    workers : tuple of str
        By default ``w0``, ``w1``, ...
    availability : mapping of int to collection of str
        The workers that hold each partition; by default worker ``j`` holds partition ``j`` alone, which makes the
        problem an open shop (Section 3.5.1).

    Raises
    ------
    HopperError
        No unit; a time that is not a positive number of seconds; as many names as there are not rows or columns;
        a name twice; a partition that nobody holds, or somebody who is not a worker.

    Examples
    --------
    The epochs of Figure 3.5: a unit is a third of one.

    >>> figure = HopWorkload(np.repeat([[6.0], [3], [3], [3], [6]], 3, axis=1) / 3, configs=tuple("ABCDE"))
    >>> figure.lower_bound
    7.0
    >>> print(figure.explain())
    5 configurations over 3 partitions on 3 workers, 1 worker a partition
      unit times 1 to 2 s, 21 s in all
      no schedule is shorter than 7 s: the longest configuration takes at least 6 s, the workers 7 s
    """

    times: NDArray[np.float64]
    configs: tuple[str, ...] = ()
    workers: tuple[str, ...] = ()
    availability: Mapping[int, Collection[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        times = np.array(self.times, dtype=float)
        if times.ndim != 2 or not times.size:  # noqa: PLR2004 - a table
            raise HopperError(f"times of shape {times.shape}: configurations x workers, at least one of each")
        if not (np.isfinite(times) & (times > 0)).all():
            wrong = times[~(np.isfinite(times) & (times > 0))][0]
            raise HopperError(f"times has {wrong:g}: every unit takes a positive number of seconds")
        times.setflags(write=False)
        configs = tuple(self.configs) or tuple(f"c{row}" for row in range(times.shape[0]))
        workers = tuple(self.workers) or tuple(f"w{column}" for column in range(times.shape[1]))
        for what, names, count in (("configs", configs, times.shape[0]), ("workers", workers, times.shape[1])):
            if len(names) != count:
                raise HopperError(f"{len(names)} {what} for times of shape {times.shape}: {count} names")
            name, often = Counter(names).most_common(1)[0]
            if often > 1:
                raise HopperError(f"{what} has {name!r} {often} times; give each a name of its own")
        given = self.availability or {place: (name,) for place, name in enumerate(workers)}
        held = {partition: frozenset(given[partition]) for partition in sorted(given)}
        for partition, holders in held.items():
            if not holders:
                raise HopperError(f"partition {partition} is on no worker: no configuration could finish its epoch")
            for name in sorted(holders - set(workers)):
                raise unknown("worker", name, workers)
        for name, value in (
            ("times", times),
            ("configs", configs),
            ("workers", workers),
            ("availability", MappingProxyType(held)),
        ):
            object.__setattr__(self, name, value)

    @property
    def partitions(self) -> tuple[int, ...]:
        """In ascending order."""
        return tuple(self.availability)

    @property
    def open_shop(self) -> bool:
        """Whether each worker holds one partition and each partition is on one worker."""
        holders = [name for held in self.availability.values() for name in held]
        return len(holders) == len(self.availability) == len(self.workers) == len(set(holders))

    @property
    def holds(self) -> NDArray[np.bool_]:
        """Which worker holds which partition: booleans, workers x partitions."""
        return np.array([[name in held for held in self.availability.values()] for name in self.workers])

    def table(self) -> dict[tuple[str, str], float]:
        """Seconds of a unit by configuration and worker."""
        return {
            (config, worker): seconds
            for config, row in zip(self.configs, self.times.tolist(), strict=True)
            for worker, seconds in zip(self.workers, row, strict=True)
        }

    @property
    def lower_bound(self) -> float:
        """Seconds that no schedule can be shorter than: the longest configuration, or the busiest worker.

        Exact in both for an open shop. With replicas a configuration is counted at its fastest holders, and for the
        workers a relaxation stands in, which splits units at will; see :func:`optimizer.hopper._bound.lower_bound`.
        """
        return max(lower_bound(self.times, self.holds))

    def explain(self) -> str:
        """The workload in words.

        Returns
        -------
        str
            Several lines, without a newline at the end.
        """
        longest, busiest = lower_bound(self.times, self.holds)
        copies = sorted({len(held) for held in self.availability.values()})
        each = (
            f"{copies[0]} worker" + ("s" if copies[0] > 1 else "")
            if len(copies) == 1
            else f"{copies[0]} to {copies[-1]} workers"
        )
        fastest = sum(float(self.times[:, column].min(axis=1).sum()) for column in self.holds.T)
        held = f"{len(self.availability)} partitions on {len(self.workers)} workers, {each} a partition"
        seconds = f"unit times {self.times.min():g} to {self.times.max():g} s, {fastest:g} s in all"
        bound = f"the longest configuration takes at least {longest:g} s, the workers {busiest:g} s"
        return (
            f"{len(self.configs)} configurations over {held}\n"
            f"  {seconds}{'' if copies[-1] == 1 else ' on the fastest holders'}\n"
            f"  no schedule is shorter than {max(longest, busiest):g} s: {bound}"
        )
