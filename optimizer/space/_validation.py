"""Validation of configurations against a space."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from optimizer.errors import nearest
from optimizer.space._dimension import beside, within
from optimizer.space._draft import Draft, answer
from optimizer.space._errors import SpaceError
from optimizer.space._plain_values import Value, plain
from optimizer.space._repeat import Repeat
from optimizer.space._tree import Choice, Group

if TYPE_CHECKING:
    from collections.abc import Iterator

    from optimizer.space._condition import Test
    from optimizer.space._layout import Layout

__all__ = ["read"]


def read(layout: Layout, where: Test | None, params: Mapping[str, Any]) -> dict[str, Value]:
    """Return the value of each live dimension and constant by path.

    Raises
    ------
    SpaceError
        See :meth:`Space.check`.
    """
    unknown: list[str] = []
    values = dict(_paired(layout.root, params, "", "", unknown))
    # A wrong value comes before a name that is out of place, since it may be the branch that the name is missing.
    for dimension in layout.order:
        if dimension.path in values:
            value = values[dimension.path] = plain(values[dimension.path], dimension.name)
            if not dimension.domain.holds(value):
                raise SpaceError(f"{dimension.name} must be within its domain, {dimension.domain}, got {value!r}")
    if unknown:
        raise _out_of_place(layout, unknown[0])
    draft = Draft(layout)
    for dimension in layout.order:
        live = draft.live(dimension)
        if live and dimension.path not in values:
            raise SpaceError(f"{dimension.name!r} must be set: {dimension}")
        if live:
            draft.put(dimension, values[dimension.path])
        elif dimension.path in values:
            raise _out_of_place(layout, dimension.name)
    if where is not None and not answer(where, draft.params(), "the space"):
        raise SpaceError(f"a configuration must satisfy the space's where=, got {dict(params)!r}")
    return draft.values


def _out_of_place(layout: Layout, name: str) -> SpaceError:
    owners = [dimension for dimension in layout.declared if dimension.name == name]
    if owners:
        reasons = "; ".join(f"{dimension.path} is {dimension}" for dimension in owners)
        return SpaceError(f"{name!r} must not be set, since it is not live: {reasons}")
    names = [dimension.name for dimension in layout.declared]
    return SpaceError(f"names must be dimensions of the space, {', '.join(names)}, got {name!r}{nearest(name, names)}")


def _paired(group: Group, params: Any, prefix: str, nested: str, unknown: list[str]) -> Iterator[tuple[str, Any]]:
    """Pair the values of a mapping with the paths of their dimensions, and collect names that are out of place."""
    if not isinstance(params, Mapping):
        raise SpaceError(f"{nested or 'a configuration'} must be a mapping, got {params!r}")
    known = set()
    for name, path, entry in _beside(group, params, prefix):
        known.add(name)
        if isinstance(entry, Group):
            if name not in params:
                inner = ", ".join(inner for inner, _ in entry.entries)
                raise SpaceError(f"{beside(nested, name)!r} must be set to a mapping of {inner}")
            yield from _paired(entry, params[name], path, beside(nested, name), unknown)
        elif isinstance(entry, Repeat) and name in params:
            there = beside(nested, name)
            blocks = params[name]
            if not isinstance(blocks, Sequence) or isinstance(blocks, str | bytes):
                raise SpaceError(f"{there} must be a list of blocks, got {blocks!r}")
            yield path, len(blocks)
            for place, block in enumerate(blocks):
                yield from _paired(entry.block, block, within(path, place), within(there, place), unknown)
        elif name in params:
            yield path, params[name]
    unknown += [beside(nested, str(name)) for name in params if name not in known]


def _beside(group: Group, params: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, str, Any]]:
    """Yield the entries that one mapping may have: those of a group, and those of its chosen branches."""
    for name, entry in group.entries:
        path = beside(prefix, name)
        yield name, path, entry
        if isinstance(entry, Choice) and entry.branches is not None and name in params:
            for option, branch in zip(entry.options, entry.branches, strict=True):
                if isinstance(params[name], str) and option == params[name]:
                    yield from _beside(branch, params, within(path, option))
