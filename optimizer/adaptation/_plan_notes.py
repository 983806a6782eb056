"""Messages of a plan about its limitations, with their reasons."""

from __future__ import annotations

from typing import TYPE_CHECKING

from optimizer.adaptation._formatting import format_names
from optimizer.adaptation._trunk import stored_bytes
from optimizer.graph import materialisable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from optimizer.adaptation._branch import Branch
    from optimizer.adaptation._search import Problem

__all__ = ["notes"]


def notes(parts: Sequence[Branch], problem: Problem, *, keeps: bool, groups: int, disk_bytes: int) -> tuple[str, ...]:
    """List the notes of a plan that ``keeps`` layers on disk or not, and has a number of groups."""
    return tuple(_notes(parts, problem, keeps=keeps, groups=groups, disk_bytes=disk_bytes))


def _notes(parts: Sequence[Branch], problem: Problem, *, keeps: bool, groups: int, disk_bytes: int) -> Iterator[str]:
    whole = [name for branch in parts if set(branch.feeds) <= set(branch.graph.inputs) for name in branch.members]
    if whole:
        yield f"nothing below what learns is frozen in {format_names(whole)}: trains whole, from the records"
    drawing = dict.fromkeys(name for branch in parts for name in _drawing(branch))
    if drawing:
        yield (
            f"random numbers are drawn by {format_names(list(drawing))}: neither these layers nor those above are "
            "materialised"
        )
    frozen = len(whole) < sum(len(branch.members) for branch in parts)
    if problem.materialise and frozen and not keeps:
        if not problem.trunk.storable and _too_small(problem):
            yield f"disk_bytes={disk_bytes}: no layer's outputs fit, so the trunk is computed in every epoch"
        else:
            yield "reading is slower than computing for all layers, so the trunk is computed in every epoch"
    if groups < problem.workers:
        yield f"{groups} group{'s' if groups > 1 else ''} on {problem.workers} workers: the others are idle"


def _drawing(branch: Branch) -> Iterator[str]:
    """Yield the random layers whose inputs are all materialisable."""
    constant = set(materialisable(branch.graph))
    for layer in branch.graph:
        if layer.random and layer.op != "input" and all(source in constant for source in layer.inputs):
            yield layer.name


def _too_small(problem: Problem) -> bool:
    trunk = problem.trunk
    nodes = [node for node in trunk.nodes if not node.source]
    sizes = [stored_bytes(trunk.graph[name], trunk.float_bytes) for node in nodes for name in node.layers]
    return min(sizes, default=0) > problem.budget
