"""Whether a configuration belongs to a space."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from optimizer.errors import nearest
from optimizer.space._dimension import beside, within
from optimizer.space._draft import Draft, answer
from optimizer.space._errors import SpaceError
from optimizer.space._plain import Value, plain
from optimizer.space._tree import Choice, Group

if TYPE_CHECKING:
    from collections.abc import Iterator

    from optimizer.space._layout import Layout
    from optimizer.space._where import Test

__all__ = ["read"]


def read(layout: Layout, where: Test | None, params: Mapping[str, Any]) -> dict[str, Value]:
    """Find the value of each live dimension and constant, by path.

    Raises
    ------
    SpaceError
        See :meth:`Space.check`.
    """
    unknown: list[str] = []
    given = dict(_given(layout.root, params, "", "", unknown))
    # A wrong value comes before a name that is out of place, since it may be the branch that the name is missing.
    for dimension in layout.order:
        if dimension.path in given:
            value = given[dimension.path] = plain(given[dimension.path], dimension.name)
            if not dimension.domain.holds(value):
                raise SpaceError(f"{dimension.name!r}={value!r} is outside its domain: {dimension.domain}")
    if unknown:
        raise _out_of_place(layout, unknown[0])
    draft = Draft(layout)
    for dimension in layout.order:
        live = draft.live(dimension)
        if live and dimension.path not in given:
            raise SpaceError(f"{dimension.name!r} is missing: {dimension}")
        if live:
            draft.put(dimension, given[dimension.path])
        elif dimension.path in given:
            raise _out_of_place(layout, dimension.name)
    if where is not None and not answer(where, draft.params(), "the space"):
        raise SpaceError(f"{dict(params)!r} does not satisfy the space's where=")
    return draft.values


def _out_of_place(layout: Layout, name: str) -> SpaceError:
    owners = [dimension for dimension in layout.declared if dimension.name == name]
    if owners:
        reasons = "; ".join(f"{dimension.path} is {dimension}" for dimension in owners)
        return SpaceError(f"{name!r} is set, and not live: {reasons}")
    names = [dimension.name for dimension in layout.declared]
    return SpaceError(f"no dimension {name!r} in the space{nearest(name, names)}; there are {', '.join(names)}")


def _given(group: Group, params: Any, prefix: str, nested: str, unknown: list[str]) -> Iterator[tuple[str, Any]]:
    """Pair the values of a mapping with the paths of their dimensions; add names that are out of place to a list."""
    if not isinstance(params, Mapping):
        raise SpaceError(f"{nested or 'a configuration'} has to be a mapping, not {params!r}")
    known = set()
    for name, path, entry in _beside(group, params, prefix):
        known.add(name)
        if isinstance(entry, Group):
            if name not in params:
                inner = ", ".join(inner for inner, _ in entry.entries)
                raise SpaceError(f"{beside(nested, name)!r} is missing: a mapping of {inner}")
            yield from _given(entry, params[name], path, beside(nested, name), unknown)
        elif name in params:
            yield path, params[name]
    unknown += [beside(nested, str(name)) for name in params if name not in known]


def _beside(group: Group, params: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, str, Any]]:
    """Yield what may lie in one mapping: a group's entries, and those of the branches chosen."""
    for name, entry in group.entries:
        path = beside(prefix, name)
        yield name, path, entry
        if isinstance(entry, Choice) and entry.branches is not None and name in params:
            for option, branch in zip(entry.options, entry.branches, strict=True):
                if isinstance(params[name], str) and option == params[name]:
                    yield from _beside(branch, params, within(path, option))
