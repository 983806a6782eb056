"""A schedule as a value: what runs where and when, and whether that is allowed (Section 3.3)."""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING

from ._errors import ScheduleError, unknown
from ._unit import Unit

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from ._unit import Placement

__all__ = ["Schedule"]

# Of the makespan: what adding up floats in another order may make of two units that touch.
_ROUNDING = 1e-9
_SHOWN = 8


@dataclass(frozen=True, slots=True)
class Schedule:
    """One epoch of model hopper parallelism.

    Attributes
    ----------
    placements : tuple of Placement
        In the order of their starts.
    lower_bound : float
        Seconds that no schedule can be shorter than; 0 where none is known.
    optimal : bool
        Whether it is proven that no schedule is shorter.
    method : str
        What made it.

    Examples
    --------
    >>> from optimizer.hopper import Placement
    >>> swap = Schedule(
    ...     (
    ...         Placement(Unit("a", 0), "w0", 0, 2),
    ...         Placement(Unit("b", 1), "w1", 0, 1),
    ...         Placement(Unit("a", 1), "w1", 2, 4),
    ...         Placement(Unit("b", 0), "w0", 2, 3),
    ...     ),
    ...     lower_bound=4,
    ... )
    >>> swap.check({0: {"w0"}, 1: {"w1"}}, configs=["a", "b"])
    >>> swap.makespan, swap.ratio, swap.visit_order("b"), swap.utilisation
    (4, 1.0, (1, 0), 0.75)
    """

    placements: tuple[Placement, ...]
    lower_bound: float = 0.0
    optimal: bool = False
    method: str = "given"

    def __post_init__(self) -> None:
        ordered = tuple(sorted(self.placements, key=attrgetter("start", "end")))
        object.__setattr__(self, "placements", ordered)

    @property
    def makespan(self) -> float:
        """Seconds from 0 to the end of the last unit."""
        return max((one.end for one in self.placements), default=0.0)

    @property
    def ratio(self) -> float:
        """Makespan over ``lower_bound``; 1 is optimal, NaN where no bound is known."""
        return self.makespan / self.lower_bound if self.lower_bound else float("nan")

    @property
    def utilisation(self) -> float:
        """The share of the workers' time, from 0 to the makespan, in which they train; of those that do anything."""
        busy = sum(one.end - one.start for one in self.placements)
        whole = self.makespan * len({one.worker for one in self.placements})
        return busy / whole if whole else 1.0

    @property
    def configs(self) -> tuple[str, ...]:
        """Configurations in the order of their first unit."""
        return tuple(dict.fromkeys(one.unit.config for one in self.placements))

    def visit_order(self, config: str) -> tuple[int, ...]:
        """The partitions that a configuration visits, in its order; what a replay needs to give the same model.

        Parameters
        ----------
        config : str

        Returns
        -------
        tuple of int

        Raises
        ------
        HopperError
            The configuration is not in the schedule.
        """
        found = tuple(one.unit.partition for one in self.placements if one.unit.config == config)
        if not found:
            raise unknown("configuration", config, self.configs)
        return found

    def check(self, availability: Mapping[int, Collection[str]], configs: Iterable[str] | None = None) -> None:
        """Hold the schedule against the invariants of Section 3.3.

        A unit is one placement, so what runs is never preempted.

        Parameters
        ----------
        availability : mapping of int to collection of str
            The workers that hold each partition.
        configs : iterable of str, optional
            All that have to be there; those of the schedule by default.

        Raises
        ------
        ScheduleError
            Names the invariant and the units that break it.
        """
        for one in self.placements:
            if not one.start >= 0 or not one.end >= one.start:
                raise ScheduleError(f"{one} does not run forwards from 0", "no overlap")
            if one.worker not in availability.get(one.unit.partition, ()):
                raise ScheduleError(f"{one}: that worker does not hold the partition", "placement")
        runs = Counter(one.unit for one in self.placements)
        names = self.configs if configs is None else tuple(configs)
        wanted = {Unit(name, partition) for name in names for partition in availability}
        for unit in sorted(wanted | runs.keys()):
            if runs[unit] != (unit in wanted):
                raise ScheduleError(f"{unit} runs {runs[unit]} times, not {int(unit in wanted)}", "completeness")
        self._apart("isolation", {one: one.unit.config for one in self.placements})
        self._apart("exclusive access", {one: one.worker for one in self.placements})

    def _apart(self, invariant: str, keys: Mapping[Placement, str]) -> None:
        """Two units that share a configuration, or a worker, must not run at the same time."""
        rounding = _ROUNDING * self.makespan
        sharing: dict[str, list[Placement]] = defaultdict(list)
        for one, key in keys.items():
            sharing[key].append(one)
        for group in sharing.values():
            for before, after in itertools.pairwise(group):
                if after.start < before.end - rounding:
                    raise ScheduleError(f"({before}) and ({after}) run at the same time", invariant)

    def explain(self) -> str:
        """The schedule in words: how long, how near the bound, and each worker's sequence.

        Returns
        -------
        str
            Several lines, without a newline at the end.
        """
        proven = ", proven optimal" if self.optimal else ""
        bound = f", {self.ratio:.4f} of the lower bound {self.lower_bound:g} s" if self.lower_bound else ""
        what = f"{len(self.placements)} units of {len(self.configs)} configurations by {self.method}"
        lines = [f"{what}: {self.makespan:g} s{bound}{proven}; workers train {self.utilisation:.1%} of the time"]
        for worker in sorted({one.worker for one in self.placements}):
            own = [one for one in self.placements if one.worker == worker]
            shown = ", ".join(f"{one.unit.config}/{one.unit.partition}" for one in own[:_SHOWN])
            more = f", and {len(own) - _SHOWN} more" if len(own) > _SHOWN else ""
            lines.append(f"  {worker}: {shown}{more}")
        return "\n".join(lines)
