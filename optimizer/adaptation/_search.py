"""The search for materialised layers and groups: in two phases as in the paper, or jointly."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from optimizer.adaptation._fusion import fuse
from optimizer.adaptation._milp import best_stored
from optimizer.adaptation._reuse import ReusePlans

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from optimizer.adaptation._fused import Fused, Memory
    from optimizer.adaptation._milp import Solver
    from optimizer.adaptation._trunk import Trunk

__all__ = ["Found", "Problem", "search"]

# Loads that a unit may have, relative to the mean of all workers. 1 balances them if the units can be cut so.
_CAPS = (1.0, 1.1, 1.25, 1.5, 2.0)
_ROUNDS = 4


@dataclass(frozen=True, slots=True)
class Problem:
    """What is given to the search.

    Attributes
    ----------
    trunk : Trunk
    singles : sequence of (Fused, int)
        Units of one member, and how many there are of each.
    budget : int
        Bytes on disk for one record.
    memory_bytes : int
    memory : Memory
    workers : int
    materialise, fuse : bool
    solver : {"highs", "cbc"}
    seconds : float
        Limit of a solver's run.
    given : bool
        Whether all storable layers lie on disk already, so that only the units are chosen. Default ``False``.
    """

    trunk: Trunk
    singles: Sequence[tuple[Fused, int]]
    budget: int
    memory_bytes: int
    memory: Memory
    workers: int
    materialise: bool
    fuse: bool
    solver: Solver
    seconds: float
    given: bool = False


@dataclass(frozen=True, slots=True)
class Found:
    """Units, what they read, and the makespan in FLOPs for one record.

    ``proven`` is the solver's word on the layers for these units, not on the units.
    """

    units: tuple[tuple[Fused, int], ...]
    plans: ReusePlans
    makespan: float
    total: int
    proven: bool

    @property
    def rank(self) -> tuple[float, int, int]:
        """Order of preference: the makespan, what all units cost together, how many they are."""
        return self.makespan, self.total, sum(count for _, count in self.units)


def search(problem: Problem, *, joint: bool) -> Found | None:
    """Choose the materialised layers and the units.

    The two phases of the paper choose the layers for models that train apart, and fuse afterwards. Jointly, the
    layers are chosen again for the units, and the units for the layers, from three starts: those two phases, all
    layers that anybody could read, and none. The best of all comes back, so never worse than the two phases. Where the
    layers are given, only the units are chosen.

    Returns
    -------
    Found or None
        None where no unit of one member fits into memory, whatever is materialised.
    """
    if problem.given:
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


def _alternate(problem: Problem, stored: frozenset[int]) -> Iterator[Found | None]:
    """Improve the units for the layers and the layers for the units, until neither changes."""
    seen = set[frozenset[int]]()
    for _ in range(_ROUNDS):
        if stored in seen:
            return
        seen.add(stored)
        # The start may be over the budget: its units are a guess, judged with layers that fit.
        groupings = list(_groupings(problem, ReusePlans(problem.trunk, stored)))
        best: Found | None = None
        for units in groupings:
            choice, proven = _stored(problem, units)
            best = _better(best, _found(problem, units, ReusePlans(problem.trunk, choice), proven=proven))
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
        # The paper's first phase knows of no units yet, so of no makespan.
        workers=1 if units is problem.singles else problem.workers,
        solver=problem.solver,
        seconds=problem.seconds,
    )


def _fused(problem: Problem, stored: frozenset[int], *, proven: bool) -> Found | None:
    """Fuse for given layers; of several groupings the best."""
    plans = ReusePlans(problem.trunk, stored)
    return _better(None, *(_found(problem, units, plans, proven=proven) for units in _groupings(problem, plans)))


def _groupings(problem: Problem, plans: ReusePlans) -> Iterator[Sequence[tuple[Fused, int]]]:
    if not problem.fuse:
        yield problem.singles
        return
    units = fuse(problem.singles, plans, problem.memory, problem.memory_bytes, math.inf)
    yield units
    mean = _total(units, plans) / problem.workers
    if problem.workers == 1 or max(unit.flops(plans) for unit, _ in units) <= mean:
        return
    # A unit visits one worker at a time: one that is longer than the mean leaves the others idle.
    for cap in _CAPS:
        yield fuse(problem.singles, plans, problem.memory, problem.memory_bytes, cap * mean)
    yield problem.singles


def _found(problem: Problem, units: Sequence[tuple[Fused, int]], plans: ReusePlans, *, proven: bool) -> Found | None:
    if any(unit.memory_bytes(plans, problem.memory) > problem.memory_bytes for unit, _ in units):
        return None
    total = _total(units, plans)
    makespan = max(total / problem.workers, *(unit.flops(plans) for unit, _ in units))
    return Found(tuple(units), plans, makespan, total, proven)


def _total(units: Iterable[tuple[Fused, int]], plans: ReusePlans) -> int:
    return sum(count * unit.flops(plans) for unit, count in units)


def _better(best: Found | None, *others: Found | None) -> Found | None:
    found = [one for one in (best, *others) if one is not None]
    return min(found, key=lambda one: one.rank) if found else None
