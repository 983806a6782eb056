"""Schedule as a value: the place and time of each unit, and a check of the invariants (Section 3.3)."""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING

from optimizer.hopper import ScheduleError, Unit
from optimizer.hopper._errors import unknown
from optimizer.notebook import ExplainedInNotebooks

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from optimizer.hopper import Placement

__all__ = ["Schedule"]

# Share of the makespan by which two adjacent units may overlap: floats added in another order differ in rounding.
_ROUNDING = 1e-9
_SHOWN = 8


@dataclass(frozen=True, slots=True)
class Schedule(ExplainedInNotebooks):
    """Schedule of one epoch of model hopper parallelism.

    Attributes
    ----------
    placements : tuple of Placement
        Placements, sorted by start.
    lower_bound : float
        Seconds that no schedule can be shorter than; 0 if no bound is known.
    optimal : bool
        Whether it is proven that no schedule is shorter.
    method : str
        Name of the algorithm that made it.

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
        return max((placement.end for placement in self.placements), default=0.0)

    @property
    def ratio(self) -> float:
        """Makespan over ``lower_bound``; 1 is optimal, NaN if no bound is known."""
        return self.makespan / self.lower_bound if self.lower_bound else float("nan")

    @property
    def utilisation(self) -> float:
        """Share of the time from 0 to the makespan in which workers train; workers without a unit do not count."""
        busy = sum(placement.end - placement.start for placement in self.placements)
        available = self.makespan * len({placement.worker for placement in self.placements})
        return busy / available if available else 1.0

    @property
    def configs(self) -> tuple[str, ...]:
        """Configurations in the order of their first unit."""
        return tuple(dict.fromkeys(placement.unit.config for placement in self.placements))

    def visit_order(self, config: str) -> tuple[int, ...]:
        """Return the partitions that a configuration visits, in order; a replay in this order gives the same model.

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
        order = tuple(placement.unit.partition for placement in self.placements if placement.unit.config == config)
        if not order:
            raise unknown("configuration", config, self.configs)
        return order

    def check(self, availability: Mapping[int, Collection[str]], configs: Iterable[str] | None = None) -> None:
        """Check the schedule against the invariants of Section 3.3.

        A unit has one placement, so no unit is ever preempted.

        Parameters
        ----------
        availability : mapping of int to collection of str
            The workers that hold each partition.
        configs : iterable of str, optional
            Configurations that the schedule must have; by default those that it has.

        Raises
        ------
        ScheduleError
            An invariant does not hold; the message names it and the units that break it.
        """
        for placement in self.placements:
            if not placement.start >= 0 or not placement.end >= placement.start:
                raise ScheduleError(f"{placement} does not run forwards from 0", "no overlap")
            if placement.worker not in availability.get(placement.unit.partition, ()):
                raise ScheduleError(f"{placement}: that worker does not hold the partition", "placement")
        runs = Counter(placement.unit for placement in self.placements)
        names = self.configs if configs is None else tuple(configs)
        required = {Unit(name, partition) for name in names for partition in availability}
        for unit in sorted(required | runs.keys()):
            if runs[unit] != (unit in required):
                raise ScheduleError(f"{unit} runs {runs[unit]} times, not {int(unit in required)}", "completeness")
        self._check_overlap("isolation", {placement: placement.unit.config for placement in self.placements})
        self._check_overlap("exclusive access", {placement: placement.worker for placement in self.placements})

    def _check_overlap(self, invariant: str, keys: Mapping[Placement, str]) -> None:
        """Raise if two placements of one key, a configuration or a worker, overlap."""
        rounding = _ROUNDING * self.makespan
        sharing: dict[str, list[Placement]] = defaultdict(list)
        for placement, key in keys.items():
            sharing[key].append(placement)
        for group in sharing.values():
            for before, after in itertools.pairwise(group):
                if after.start < before.end - rounding:
                    raise ScheduleError(f"({before}) and ({after}) run at the same time", invariant)

    def explain(self) -> str:
        """Describe the schedule: its makespan, its distance from the bound, and the sequence of each worker.

        Returns
        -------
        str
            Lines of text, without a newline at the end.
        """
        proven = ", proven optimal" if self.optimal else ""
        bound = f", {self.ratio:.4f} of the lower bound {self.lower_bound:g} s" if self.lower_bound else ""
        units = f"{len(self.placements)} units of {len(self.configs)} configurations by {self.method}"
        lines = [f"{units}: {self.makespan:g} s{bound}{proven}; workers train {self.utilisation:.1%} of the time"]
        for worker in sorted({placement.worker for placement in self.placements}):
            sequence = [placement.unit for placement in self.placements if placement.worker == worker]
            shown = ", ".join(f"{unit.config}/{unit.partition}" for unit in sequence[:_SHOWN])
            more = f", and {len(sequence) - _SHOWN} more" if len(sequence) > _SHOWN else ""
            lines.append(f"  {worker}: {shown}{more}")
        return "\n".join(lines)
