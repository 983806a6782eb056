"""Choice of the layers to materialise by a mixed-integer linear program (Nautilus, equations 8 to 10)."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from optimizer.adaptation._fused_units import Fused
    from optimizer.adaptation._trunk import Trunk

__all__ = ["best_stored"]

# Weight of the total FLOPs, which decides only between plans with the same makespan.
_TOTAL_WEIGHT = 1e-6


def best_stored(
    trunk: Trunk,
    units: Sequence[tuple[Fused, int]],
    *,
    budget: int,
    workers: int,
    seconds: float,
) -> tuple[frozenset[int], bool]:
    """Choose the layers to materialise for some units: X, Y and Z of equation 8.

    With units of one member and one worker this is the paper's program. Units with equal needs have equal best plans
    and share variables, weighted by their epochs. For a fixed Z, X and Y are a minimum cut, whose linear program has
    integer solutions, so only Z is declared binary. ``budget`` is bytes on disk for one record: equation 7 divided by
    the number of records. The solver minimises the makespan of the workers, the larger of the mean load and the longest
    unit; after ``seconds`` its best choice so far is used. Return nodes, perhaps more than the best plan reads, and
    whether the choice is proven to be optimal.
    """
    storable = trunk.storable
    if sum(trunk.nodes[place].nbytes for place in storable) <= budget:
        # More layers on disk never cost more, and those that are not read are dropped.
        return frozenset(storable), True
    smallest = min(trunk.nodes[place].nbytes for place in storable)
    if smallest > budget:
        return frozenset(), True
    import pulp  # type: ignore[import-untyped]

    needs = [(unit.branch_flops, [(wanted, epochs) for epochs, wanted in unit.phases()], n) for unit, n in units]
    problem = pulp.LpProblem("materialise", pulp.LpMinimize)
    chosen = {place: problem.add_variable(f"Z{place}", cat="Binary") for place in storable}
    sets = {wanted: None for _, phases, _ in needs for wanted, _ in phases}
    cost = {wanted: _reuse(problem, trunk, wanted, chosen, f"{i}") for i, wanted in enumerate(sets)}
    # Solvers need numbers near 1.
    scale = max(1.0, *(float(trunk.nodes[place].flops + trunk.nodes[place].load) for place in range(len(trunk.nodes))))
    spent = [
        fixed / scale + pulp.lpSum(epochs / scale * cost[wanted] for wanted, epochs in phases)
        for fixed, phases, _ in needs
    ]
    total = pulp.lpSum(n * flops for flops, (_, _, n) in zip(spent, needs, strict=True))
    if workers == 1:
        problem += total
    else:
        makespan = problem.add_variable("C", 0)
        problem += makespan + _TOTAL_WEIGHT * total
        problem += workers * makespan >= total
        for flops in spent:
            problem += makespan >= flops
    problem += pulp.lpSum(trunk.nodes[place].nbytes / max(budget, 1) * z for place, z in chosen.items()) <= 1
    status = _solve(pulp, problem, seconds)
    if status is None:
        return frozenset(), False
    selected = [place for place in storable if (chosen[place].value() or 0.0) > 0.5]
    # The solver may exceed the budget within its tolerance.
    while sum(trunk.nodes[place].nbytes for place in selected) > budget:
        selected.pop()
    return frozenset(selected), status


def _reuse(problem: Any, trunk: Trunk, wanted: frozenset[int], chosen: Mapping[int, Any], tag: str) -> Any:
    """Add X and Y of one set of needs with constraints 10 (a) to (d), and return their cost, equation 9."""
    present: dict[int, Any] = {}
    terms = []
    for place in trunk.below(wanted):
        node = trunk.nodes[place]
        present[place] = x = problem.add_variable(f"X{tag}_{place}", 1 if place in wanted else 0, 1)
        if node.source:
            terms.append(node.load * x)
            continue
        if place not in chosen:
            # A layer that cannot be read is computed if present; 10 (d) as printed allows reading it.
            y = x
        else:
            y = problem.add_variable(f"Y{tag}_{place}", 0, 1)
            problem += y <= x
            problem += x - y <= chosen[place]
        terms.append(node.flops * y)
        if place in chosen:
            terms.append(node.load * (x - y))
        # Every parent is needed; their sum, 10 (c) as printed, requires only one.
        for parent in node.parents:
            problem += y <= present[parent]
    return sum(terms)


def _solve(pulp: Any, problem: Any, seconds: float) -> bool | None:
    """Run the solver, and return whether the solution is proven, or None without a solution in time."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        problem.solve(pulp.HiGHS(msg=False, timeLimit=seconds, threads=1, gapRel=1e-9))
    if problem.sol_status not in {pulp.LpSolutionOptimal, pulp.LpSolutionIntegerFeasible}:
        return None
    return bool(problem.sol_status == pulp.LpSolutionOptimal)
