"""What a plan cannot do, and why: the fallbacks that ``explain()`` states."""

from __future__ import annotations

from typing import TYPE_CHECKING

from optimizer.adaptation._explain import listed
from optimizer.adaptation._trunk import stored_bytes
from optimizer.graph import materialisable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from optimizer.adaptation._branch import Branch
    from optimizer.adaptation._search import Problem

__all__ = ["notes"]


def notes(parts: Sequence[Branch], problem: Problem, *, keeps: bool, groups: int, disk_bytes: int) -> tuple[str, ...]:
    """List the notes of a plan that ``keeps`` a layer on disk or not, and has that many groups."""
    return tuple(_notes(parts, problem, keeps=keeps, groups=groups, disk_bytes=disk_bytes))


def _notes(parts: Sequence[Branch], problem: Problem, *, keeps: bool, groups: int, disk_bytes: int) -> Iterator[str]:
    whole = [name for branch in parts if set(branch.feeds) <= set(branch.graph.inputs) for name in branch.members]
    if whole:
        yield f"nothing frozen lies below what learns in {listed(whole)}: trains whole, from the records"
    drawing = dict.fromkeys(name for branch in parts for name in _drawing(branch))
    if drawing:
        yield (
            f"random numbers are drawn by {listed(list(drawing))}: neither that nor what is above it is materialised"
        )
    frozen = len(whole) < sum(len(branch.members) for branch in parts)
    if problem.materialise and frozen and not keeps:
        if not problem.trunk.storable and _too_small(problem):
            yield f"disk_bytes={disk_bytes}: no layer's outputs fit, so the trunk is computed in every epoch"
        else:
            yield "no layer is read sooner than computed, so the trunk is computed in every epoch"
    if groups < problem.workers:
        yield f"{groups} group{'s' if groups > 1 else ''} on {problem.workers} workers: the others have nothing to do"


def _drawing(branch: Branch) -> Iterator[str]:
    """Name the random layers but for which something would be materialisable."""
    constant = set(materialisable(branch.graph))
    for layer in branch.graph:
        if layer.random and layer.op != "input" and all(source in constant for source in layer.inputs):
            yield layer.name


def _too_small(problem: Problem) -> bool:
    trunk = problem.trunk
    nodes = [node for node in trunk.nodes if not node.source]
    sizes = [stored_bytes(trunk.graph[name], trunk.float_bytes) for node in nodes for name in node.layers]
    return min(sizes, default=0) > problem.budget
