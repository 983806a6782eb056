"""The choice of layers to materialise as a mixed-integer linear program: Nautilus, equations 8 to 10."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from optimizer.adaptation._fused import Fused
    from optimizer.adaptation._trunk import Trunk

__all__ = ["Solver", "best_stored"]

Solver = Literal["highs", "cbc"]

# Of plans with one makespan the one that computes less; the weight is too small to trade one for the other.
_TOTAL_WEIGHT = 1e-6


def best_stored(
    trunk: Trunk,
    units: Sequence[tuple[Fused, int]],
    *,
    budget: int,
    workers: int,
    solver: Solver,
    seconds: float,
) -> tuple[frozenset[int], bool]:
    """Choose the layers to materialise for given units: X, Y and Z of equation 8.

    Units of one member, one worker: the paper's program. Its variables are kept once for each set of nodes that
    somebody needs, weighted by the epochs of all who do, for equal needs have equal best plans. With Z given, X and Y
    are a minimum cut, whose linear program has whole solutions: only Z is declared binary.

    Parameters
    ----------
    trunk : Trunk
    units : sequence of (Fused, int)
        Kinds of units, and how many of each.
    budget : int
        Bytes on disk for one record: equation 7 over the number of records.
    workers : int
        The makespan of that many is minimised: the larger of the mean load and the longest unit.
    solver : {"highs", "cbc"}
    seconds : float
        Limit of the solver; then the best choice so far is taken.

    Returns
    -------
    (frozenset of int, bool)
        Nodes, perhaps more than the best plan reads; and whether the choice is proven to be the best.
    """
    storable = trunk.storable
    if sum(trunk.nodes[place].nbytes for place in storable) <= budget:
        # More on disk never costs more, and what is not read is dropped.
        return frozenset(storable), True
    smallest = min(trunk.nodes[place].nbytes for place in storable)
    if smallest > budget:
        return frozenset(), True
    import pulp  # type: ignore[import-untyped]  # only a plan that has to choose needs the solver

    needs = [(unit.branch_flops, [(wanted, epochs) for epochs, wanted in unit.phases()], n) for unit, n in units]
    problem = pulp.LpProblem("materialise", pulp.LpMinimize)
    chosen = {place: problem.add_variable(f"Z{place}", cat="Binary") for place in storable}
    sets = {wanted: None for _, phases, _ in needs for wanted, _ in phases}
    cost = {wanted: _reuse(problem, trunk, wanted, chosen, f"{i}") for i, wanted in enumerate(sets)}
    # Solvers want numbers near 1.
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
    status = _solve(pulp, problem, solver, seconds)
    if status is None:
        return frozenset(), False
    taken = [place for place in storable if (chosen[place].value() or 0.0) > 0.5]  # a binary
    # A solver's tolerance is not the disk's.
    while sum(trunk.nodes[place].nbytes for place in taken) > budget:
        taken.pop()
    return frozenset(taken), status


def _reuse(problem: Any, trunk: Trunk, wanted: frozenset[int], chosen: Mapping[int, Any], tag: str) -> Any:
    """Add X and Y of one set of needs, with constraints 10 (a) to (d); return their cost, equation 9."""
    present: dict[int, Any] = {}
    terms = []
    for place in trunk.below(wanted):
        node = trunk.nodes[place]
        present[place] = x = problem.add_variable(f"X{tag}_{place}", 1 if place in wanted else 0, 1)
        if node.source:
            terms.append(node.load * x)
            continue
        if place not in chosen:
            # What cannot be read is computed when present; 10 (d) as printed lets it be read.
            y = x
        else:
            y = problem.add_variable(f"Y{tag}_{place}", 0, 1)
            problem += y <= x
            problem += x - y <= chosen[place]
        terms.append(node.flops * y)
        if place in chosen:
            terms.append(node.load * (x - y))
        # Each parent: their sum, 10 (c) as printed, is content with one.
        for parent in node.parents:
            problem += y <= present[parent]
    return sum(terms)


def _solve(pulp: Any, problem: Any, solver: Solver, seconds: float) -> bool | None:
    """Run the solver: whether the solution is proven, or None where it found none in time."""
    engine: Any = pulp.HiGHS
    if solver == "cbc":
        # PuLP 3 ships CBC and warns that PuLP 4 will not; a CBC that is installed comes first.
        engine = pulp.COIN_CMD if pulp.COIN_CMD().available() else pulp.PULP_CBC_CMD
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        problem.solve(engine(msg=False, timeLimit=seconds, threads=1, gapRel=1e-9))
    if problem.sol_status not in {pulp.LpSolutionOptimal, pulp.LpSolutionIntegerFeasible}:
        return None
    return bool(problem.sol_status == pulp.LpSolutionOptimal)
