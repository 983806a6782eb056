"""Order in which a space's dimensions are drawn, each after those that its condition reads."""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from typing import TYPE_CHECKING

from optimizer.errors import nearest
from optimizer.space._dimension import Dimension, dimensions
from optimizer.space._errors import SpaceError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from optimizer.space._tree import Group

__all__ = ["Layout", "laid_out"]


@dataclass(frozen=True)
class Layout:
    """Tree of a space and its leaves.

    ``declared`` are in the user's order, ``order`` is that in which they are drawn.
    """

    root: Group
    declared: tuple[Dimension, ...]
    order: tuple[Dimension, ...]


def laid_out(root: Group) -> Layout:
    """Order the dimensions of a tree.

    Raises
    ------
    SpaceError
        A condition has an unknown name, a value that never occurs, or a circular dependency.
    """
    declared = tuple(dimensions(root))
    named: dict[str, list[int]] = {}
    for place, dimension in enumerate(declared):
        named.setdefault(dimension.name, []).append(place)
    paths = {dimension.path: place for place, dimension in enumerate(declared)}
    before: list[set[int]] = []
    for place, dimension in enumerate(declared):
        first = {paths[dimension.parent[0]]} if dimension.parent else set()
        if dimension.domain.where.test:
            first |= set(range(place))
        for name in _needed(dimension, named, declared):
            first |= set(named[name])
        before.append(first)
    return Layout(root, declared, tuple(declared[place] for place in _order(before, declared)))


def _needed(dimension: Dimension, named: dict[str, list[int]], declared: Sequence[Dimension]) -> Iterator[str]:
    for name, values in dimension.domain.where.needs:
        if name not in named:
            raise SpaceError(
                f"where of {dimension.path} must have names of dimensions, {', '.join(named)}, got {name!r}"
                f"{nearest(name, named)}"
            )
        domains = [declared[place].domain for place in named[name]]
        for value in values:
            if not any(domain.holds(value) for domain in domains):
                raise SpaceError(f"where of {dimension.path} must have values of {name}, {domains[0]}, got {value!r}")
        yield name


def _order(before: Sequence[set[int]], declared: Sequence[Dimension]) -> Iterator[int]:
    """Yield the places in the declared order where the conditions allow it."""
    sorter = TopologicalSorter(dict(enumerate(before)))
    try:
        sorter.prepare()
    except CycleError as error:
        circle = " -> ".join(declared[place].path for place in reversed(error.args[1]))
        raise SpaceError(f"where must not depend on its own dimension, got the circle {circle}") from None
    ready: list[int] = []
    while sorter.is_active():
        for place in sorter.get_ready():
            heapq.heappush(ready, place)
        place = heapq.heappop(ready)
        yield place
        sorter.done(place)
