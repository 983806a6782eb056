"""Search for materialised layers and groups, in two phases as in the paper or jointly."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from optimizer.adaptation._fusion import fuse
from optimizer.adaptation._milp import best_stored
from optimizer.adaptation._reuse import ReusePlans

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from optimizer.adaptation._fused_units import Fused
    from optimizer.adaptation._trunk import Trunk

__all__ = ["Problem", "Solution", "search"]

# Largest loads of a unit relative to the mean of all workers; 1 balances the workers if the units can be split so.
_CAPS = (1.0, 1.1, 1.25, 1.5, 2.0)
_ROUNDS = 4


@dataclass(frozen=True, slots=True)
class Problem:
    """Input of the search.

    ``singles`` are units of one member with their numbers, ``budget`` bytes on disk for one record. With ``fixed`` the
    storable layers are on disk already, so that only the units are chosen.
    """

    trunk: Trunk
    singles: Sequence[tuple[Fused, int]]
    budget: int
    memory_bytes: int
    workspace_bytes: int
    workers: int
    materialise: bool
    fuse: bool
    seconds: float
    fixed: bool = False


@dataclass(frozen=True, slots=True)
class Solution:
    """Units with their reuse plans, and the makespan in FLOPs for one record.

    ``proven`` is true if the solver has proven that the layers are optimal for these units.
    """

    units: tuple[tuple[Fused, int], ...]
    plans: ReusePlans
    makespan: float
    total: int
    proven: bool

    @property
    def rank(self) -> tuple[float, int, int]:
        """Order of preference: the makespan, the total cost, and the number of units."""
        return self.makespan, self.total, sum(count for _, count in self.units)


def search(problem: Problem, *, joint: bool) -> Solution | None:
    """Choose the materialised layers and the units.

    The two phases of the paper choose the layers for models that train separately and fuse afterwards. The joint search
    alternates between choosing layers for the units and units for the layers, from three starts: the result of the two
    phases, all storable layers, and none. It returns the best solution, which is never worse than that of the two
    phases. With fixed layers only the units are chosen.

    Returns
    -------
    Solution or None
        None if no unit of one member fits into memory with any layers.
    """
    if problem.fixed:
        return _fused(problem, frozenset(problem.trunk.storable), proven=True)
    stored, proven = _stored(problem, problem.singles)
    best = _better(None, _fused(problem, stored, proven=proven))
    if joint and problem.fuse:
        for start in (stored, _all(problem), frozenset[int]()):
            best = _better(best, *_alternate(problem, start))
    if best is None and stored:
        best = _better(None, _fused(problem, frozenset(), proven=True))
    return best


def _all(problem: Problem) -> frozenset[int]:
    return frozenset(problem.trunk.storable if problem.materialise else ())


def _alternate(problem: Problem, stored: frozenset[int]) -> Iterator[Solution | None]:
    """Improve the units for the layers and the layers for the units, until neither changes."""
    seen = set[frozenset[int]]()
    for _ in range(_ROUNDS):
        if stored in seen:
            return
        seen.add(stored)
        # The start may exceed the budget: evaluate its units with layers that fit.
        groupings = list(_groupings(problem, ReusePlans(problem.trunk, stored)))
        best: Solution | None = None
        for units in groupings:
            choice, proven = _stored(problem, units)
            best = _better(best, _solution(problem, units, ReusePlans(problem.trunk, choice), proven=proven))
        yield best
        if best is None:
            return
        stored = best.plans.stored
        yield _fused(problem, stored, proven=best.proven)


def _stored(problem: Problem, units: Sequence[tuple[Fused, int]]) -> tuple[frozenset[int], bool]:
    if not problem.materialise or not problem.trunk.storable:
        return frozenset(), True
    return best_stored(
        problem.trunk,
        units,
        budget=problem.budget,
        # The paper's first phase has no units yet, and so no makespan.
        workers=1 if units is problem.singles else problem.workers,
        seconds=problem.seconds,
    )


def _fused(problem: Problem, stored: frozenset[int], *, proven: bool) -> Solution | None:
    """Return the best grouping for some layers."""
    plans = ReusePlans(problem.trunk, stored)
    return _better(None, *(_solution(problem, units, plans, proven=proven) for units in _groupings(problem, plans)))


def _groupings(problem: Problem, plans: ReusePlans) -> Iterator[Sequence[tuple[Fused, int]]]:
    if not problem.fuse:
        yield problem.singles
        return
    units = fuse(problem.singles, plans, problem.workspace_bytes, problem.memory_bytes, math.inf)
    yield units
    mean = _total(units, plans) / problem.workers
    if problem.workers == 1 or max(unit.flops(plans) for unit, _ in units) <= mean:
        return
    # A unit visits one worker at a time, so a unit longer than the mean leaves the others idle.
    for cap in _CAPS:
        yield fuse(problem.singles, plans, problem.workspace_bytes, problem.memory_bytes, cap * mean)
    yield problem.singles


def _solution(
    problem: Problem, units: Sequence[tuple[Fused, int]], plans: ReusePlans, *, proven: bool
) -> Solution | None:
    if any(unit.memory_bytes(plans, problem.workspace_bytes) > problem.memory_bytes for unit, _ in units):
        return None
    total = _total(units, plans)
    makespan = max(total / problem.workers, *(unit.flops(plans) for unit, _ in units))
    return Solution(tuple(units), plans, makespan, total, proven)


def _total(units: Iterable[tuple[Fused, int]], plans: ReusePlans) -> int:
    return sum(count * unit.flops(plans) for unit, count in units)


def _better(best: Solution | None, *others: Solution | None) -> Solution | None:
    solutions = [solution for solution in (best, *others) if solution is not None]
    return min(solutions, key=lambda solution: solution.rank, default=None)
