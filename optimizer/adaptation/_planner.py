"""Planner of adaptations."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from optimizer.adaptation._branch import branches
from optimizer.adaptation._candidate import Costs, checked
from optimizer.adaptation._fused_units import Fused
from optimizer.adaptation._group import Group, Phase
from optimizer.adaptation._plan import AdaptationPlan
from optimizer.adaptation._plan_notes import notes
from optimizer.adaptation._reuse import ReusePlans
from optimizer.adaptation._search import Problem, search
from optimizer.adaptation._trunk import trunk_of
from optimizer.arguments import whole
from optimizer.errors import InvalidArgumentError
from optimizer.memory import InfeasiblePlanError

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from optimizer.adaptation._branch import Branch
    from optimizer.adaptation._candidate import Candidate
    from optimizer.adaptation._search import Solution
    from optimizer.adaptation._trunk import Trunk

__all__ = ["plan"]

# Bytes on disk of a float32 number: as it is computed, and rounded to bfloat16.
_WIDTHS = (4, 2)


def plan(  # noqa: PLR0913 - the optimisations that can be left out, and what the machine has
    candidates: Sequence[Candidate],
    *,
    records: int,
    disk_bytes: int,
    memory_bytes: int,
    workspace_bytes: int = 0,
    workers: int = 1,
    costs: Costs,
    materialise: bool = True,
    fuse: bool = True,
    joint: bool = True,
    stored: Collection[str] | None = None,
    float_bytes: int = 4,
    stored_rows: int | None = None,
    seconds: float = 10.0,
) -> AdaptationPlan:
    """Choose the frozen layers to keep on disk, and the candidates that train together (Nautilus, section 4).

    A layer that training does not change has the same output for a record in every epoch, candidate and cycle. It is
    either computed once and read, or computed once per batch for several candidates. The plan minimises FLOPs, where
    reading counts as the FLOPs that the worker misses meanwhile.

    Parameters
    ----------
    candidates : sequence of Candidate
        Candidates to train, at least one. Those that differ only in rates and initial weights are planned as one.
    records : int
        Training records to plan for, the most that are expected before the next plan: r of the paper.
    disk_bytes : int
        Disk space for materialised layers, without the records themselves.
    memory_bytes : int
        Memory of a worker for a group at its peak.
    workspace_bytes : int
        Part of the memory that the framework needs for its operations. Default 0.
    workers : int
        Workers that each group visits one after the other. The plan minimises the makespan, since one group alone would
        leave the other workers idle. Default 1.
    materialise, fuse : bool
        Whether to use the optimisation. Default true.
    joint : bool
        Choose layers and groups together, which is never worse than the paper's two phases (``False``). Default true.
    stored : collection of str, optional
        Expressions (:meth:`optimizer.graph.LayerGraph.expression`) of the layers on disk. The plan then only groups the
        candidates over these layers, whatever ``disk_bytes``. By default it chooses the layers too.
    float_bytes : {4, 2}
        Bytes of a stored float32 number, 2 if it is rounded to bfloat16. Other types are stored unchanged. Default 4.
    stored_rows : int, optional
        Rows of a materialised layer on disk, more than ``records`` where several augmented copies are stored, of which
        an epoch reads one. Default ``records``.
    seconds : float
        Time limit of a run of the solver, after which its best choice so far is used. Default 10.

    Raises
    ------
    InvalidArgumentError
        There are no candidates, two have the same name, nothing of one learns, or a number is not allowed.
    GraphError
        A candidate reads no input.
    InfeasiblePlanError
        A candidate alone does not fit into ``memory_bytes``; ``short_bytes`` is the missing memory.

    Examples
    --------
    Two heads share a frozen layer, which is kept, since computing it takes 2 GFLOPs and reading it 0.1:

    >>> from optimizer.adaptation import Candidate, Costs, plan
    >>> from optimizer.graph import Layer, LayerGraph
    >>> trunk = [Layer("image", "input", (), (10_000,)), Layer("conv", "conv", ("image",), (2_500,), flops=2 * 10**9)]
    >>> def head(name, rate):
    ...     fc = Layer("fc", "fc", ("conv",), (10,), flops=50_000, param_bytes=100_000, fingerprint=rate, frozen=False)
    ...     return Candidate(name, LayerGraph([*trunk, fc], ["fc"]), epochs=5, batch_size=16)
    >>> chosen = plan(
    ...     [head("slow", "1"), head("fast", "2")],
    ...     records=1000,
    ...     disk_bytes=10**9,
    ...     memory_bytes=10**9,
    ...     costs=Costs(1e12, 1e8),
    ... )
    >>> chosen.materialised, chosen.groups[0].members, chosen.groups[0].loads
    (('conv',), ('slow', 'fast'), ('conv',))
    >>> print(chosen.explain())
    2 candidates in 1 group, 1,000 records, 1 worker
    materialised: conv, 9.5 MiB on disk
    group 1: 2 members (slow, fast), batch 16, 841.1 KiB, 1.5 G FLOPs computed, reading costs as much as 500.0 G
      5 epochs: reads conv; computes none
    FLOPs: 501.5 G, 47.86 times fewer than current practice (24.0 T)
    equation 11: 13334.33 times fewer if all frozen outputs were read at no cost
    predicted: 0.5 s on 1 worker
    """
    candidates = checked(candidates)
    whole("records", records, 1)
    rows = records if stored_rows is None else whole("stored_rows", stored_rows, records)
    whole("disk_bytes", disk_bytes, 0, "0 materialises nothing.")
    whole("memory_bytes", memory_bytes, 1)
    whole("workspace_bytes", workspace_bytes, 0)
    whole("workers", workers, 1)
    if float_bytes not in _WIDTHS:
        raise InvalidArgumentError(f"float_bytes must be 4, or 2 for layers stored as bfloat16, got {float_bytes!r}")
    rates: Any = costs
    if not isinstance(rates, Costs):
        raise InvalidArgumentError(f"costs must be Costs(flops_per_second=..., bytes_per_second=...), got {costs!r}")
    if not 0 < seconds < math.inf:
        raise InvalidArgumentError(f"seconds must be positive and finite, got {seconds}")
    parts = branches(candidates)
    disk = disk_bytes if materialise else 0
    trunk = trunk_of(parts, costs, records=rows, disk_bytes=disk, stored=stored, float_bytes=float_bytes)
    singles = [
        (Fused.of(number, branch, feeds), len(branch.members))
        for number, (branch, feeds) in enumerate(zip(parts, trunk.feeds, strict=True))
    ]
    problem = Problem(
        trunk=trunk,
        singles=singles,
        budget=disk_bytes // rows,
        memory_bytes=memory_bytes,
        workspace_bytes=workspace_bytes,
        workers=workers,
        materialise=materialise,
        fuse=fuse,
        seconds=seconds,
        fixed=stored is not None,
    )
    solution = search(problem, joint=joint)
    if solution is None:
        raise _does_not_fit(parts, problem)
    order = {candidate.name: place for place, candidate in enumerate(candidates)}
    return _write(parts, solution, problem, order, records=records, rows=rows, costs=costs, disk_bytes=disk_bytes)


def _write(
    parts: Sequence[Branch],
    solution: Solution,
    problem: Problem,
    order: dict[str, int],
    *,
    records: int,
    rows: int,
    costs: Costs,
    disk_bytes: int,
) -> AdaptationPlan:
    trunk = problem.trunk
    waiting = [list(branch.members) for branch in parts]
    groups = [
        _group(unit, solution, problem.workspace_bytes, waiting, order, records)
        for unit, count in solution.units
        for _ in range(count)
    ]
    groups.sort(key=lambda group: order[group.members[0]])
    read = {
        place for unit, _ in solution.units for _, need in unit.phases() for place in solution.plans.plan(need).loads
    }
    kept = [trunk.nodes[place] for place in sorted(read) if not trunk.nodes[place].source]
    inputs = [
        sum(costs.load_flops(branch.graph[name].activation_bytes) for name in branch.graph.inputs) for branch in parts
    ]
    weights = [branch.epochs * len(branch.members) for branch in parts]
    everything = sum(n * (branch.flops + branch.frozen_flops) for n, branch in zip(weights, parts, strict=True))
    needed = sum(n * branch.flops for n, branch in zip(weights, parts, strict=True))
    names = {member: trunk.merged.names[branch.members[0]] for branch in parts for member in branch.members}
    return AdaptationPlan(
        materialised=tuple(node.name for node in kept),
        groups=tuple(groups),
        theoretical_speedup=everything / needed if needed else math.inf,
        trunk=trunk.graph,
        names={name: names[name] for name in order},
        feeds={
            member: tuple(dict.fromkeys(names[member][name] for name in branch.feeds))
            for branch in parts
            for member in branch.members
        },
        materialised_bytes=rows * sum(node.nbytes for node in kept),
        current_flops=records * (everything + sum(n * load for n, load in zip(weights, inputs, strict=True))),
        records=records,
        workers=problem.workers,
        costs=costs,
        optimal=solution.proven,
        notes=notes(parts, problem, keeps=bool(kept), groups=len(groups), disk_bytes=disk_bytes),
    )


def _group(
    unit: Fused, solution: Solution, workspace_bytes: int, waiting: list[list[str]], order: dict[str, int], records: int
) -> Group:
    members: list[str] = []
    for number, count in unit.counts:
        members += waiting[number][:count]
        del waiting[number][:count]
    nodes = solution.plans.trunk.nodes
    phases = [(epochs, solution.plans.plan(wanted)) for epochs, wanted in unit.phases()]
    return Group(
        members=tuple(sorted(members, key=order.__getitem__)),
        batch_size=unit.batch_size,
        phases=tuple(
            Phase(
                epochs,
                tuple(nodes[place].name for place in reuse.loads),
                _in_order(solution.plans.trunk, reuse.computes),
            )
            for epochs, reuse in phases
        ),
        compute_flops=records * (unit.branch_flops + sum(epochs * reuse.compute_flops for epochs, reuse in phases)),
        load_flops=records * sum(epochs * reuse.load_flops for epochs, reuse in phases),
        memory_bytes=unit.memory_bytes(solution.plans, workspace_bytes),
    )


def _in_order(trunk: Trunk, places: Sequence[int]) -> tuple[str, ...]:
    inside = {name for place in places for name in trunk.nodes[place].layers}
    return tuple(name for name in trunk.graph.names if name in inside)


def _does_not_fit(parts: Sequence[Branch], problem: Problem) -> InfeasiblePlanError:
    stored = frozenset(problem.trunk.storable)
    ways = [ReusePlans(problem.trunk, frozenset()), ReusePlans(problem.trunk, stored)]
    needs = [min(unit.memory_bytes(plans, problem.workspace_bytes) for plans in ways) for unit, _ in problem.singles]
    most = max(range(len(parts)), key=needs.__getitem__)
    branch, short = parts[most], max(0, needs[most] - problem.memory_bytes)
    return InfeasiblePlanError(
        f"memory_bytes must be at least {needs[most]:,} for candidate {branch.members[0]!r} with batch size "
        f"{branch.batch_size}, {problem.workspace_bytes:,} of them workspace, got {problem.memory_bytes:,}: add "
        "memory, or "
        "use a smaller batch or fewer layers that learn",
        constraint="memory",
        short_bytes=short,
    )
