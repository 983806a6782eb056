"""Whether a configuration belongs to a space."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from optimizer.errors import nearest

from ._dimension import beside, within
from ._draft import Draft, answer
from ._errors import SpaceError
from ._plain import Value, plain
from ._tree import Choice, Group

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ._layout import Layout
    from ._where import Test

__all__ = ["read"]


def read(layout: Layout, where: Test | None, params: Mapping[str, Any]) -> dict[str, Value]:
    """Find the value of each live dimension and constant, by path.

    Raises
    ------
    SpaceError
        See :meth:`Space.check`.
    """
    given = dict(_given(layout.root, params, "", ""))
    draft = Draft(layout)
    for dimension in layout.order:
        live = draft.live(dimension)
        if dimension.path not in given:
            if live:
                raise SpaceError(f"{dimension.name!r} is missing: {dimension}")
            continue
        value = given[dimension.path]
        if not live:
            raise SpaceError(f"{dimension.name!r}={value!r} is set, and {dimension.path} is not live: {dimension}")
        value = plain(value, dimension.name)
        if not dimension.domain.holds(value):
            raise SpaceError(f"{dimension.name!r}={value!r} is outside its domain: {dimension.domain}")
        draft.put(dimension, value)
    if where is not None and not answer(where, draft.params(), "the space"):
        raise SpaceError(f"{dict(params)!r} does not satisfy the space's where=")
    return draft.values


def _given(group: Group, params: Any, prefix: str, owner: str) -> Iterator[tuple[str, Any]]:
    """Pair the values of a mapping with the paths of their dimensions, and refuse what is left over."""
    if not isinstance(params, Mapping):
        raise SpaceError(f"{owner or 'a configuration'} has to be a mapping, not {params!r}")
    known: dict[str, str] = {}
    for name, path, entry in _beside(group, params, prefix):
        known[name] = path
        if isinstance(entry, Group):
            if name not in params:
                raise SpaceError(f"{name!r} is missing: a mapping of {', '.join(inner for inner, _ in entry.entries)}")
            yield from _given(entry, params[name], path, name)
        elif name in params:
            yield path, params[name]
    for name in params:
        if name not in known:
            within_owner = f" in {owner!r}" if owner else ""
            raise SpaceError(
                f"{name!r}{within_owner} is no dimension of the space, or none of the branch that is chosen"
                f"{nearest(str(name), known)}; there are {', '.join(known)}"
            )


def _beside(group: Group, params: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, str, Any]]:
    """Yield what may lie in one mapping: a group's entries, and those of the branches chosen."""
    for name, entry in group.entries:
        path = beside(prefix, name)
        yield name, path, entry
        if isinstance(entry, Choice) and entry.branches is not None and name in params:
            for option, branch in zip(entry.options, entry.branches, strict=True):
                if isinstance(params[name], str) and option == params[name]:
                    yield from _beside(branch, params, within(path, option))
