"""Configurations while they are drawn, with the live dimensions so far."""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING, Any

from optimizer.space._dimension import beside, within
from optimizer.space._errors import SpaceError
from optimizer.space._plain_values import Value, same
from optimizer.space._repeat import Repeat
from optimizer.space._tree import Choice, Group

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from optimizer.space._dimension import Dimension
    from optimizer.space._layout import Layout

__all__ = ["Draft", "drafted"]


class Draft:
    """Partial configuration; ``values`` are those of live dimensions and constants, by path."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.values: dict[str, Value] = {}
        self._named: dict[str, Value] = {}

    def copy(self) -> Draft:
        """Return a draft with the same values."""
        other = Draft(self.layout)
        other.values, other._named = dict(self.values), dict(self._named)
        return other

    def put(self, dimension: Dimension, value: Value) -> None:
        """Set the value of a live dimension."""
        self.values[dimension.path] = self._named[dimension.name] = value

    def live(self, dimension: Dimension) -> bool:
        """Return True if a dimension is live, after all before it are set.

        Raises
        ------
        SpaceError
            The function of its ``where=`` failed.
        """
        if dimension.parent is not None:
            path, branch = dimension.parent
            value = self.values.get(path)
            if isinstance(branch, int):
                # A block, which is live if there are more blocks than its place.
                if not isinstance(value, int) or value <= branch:
                    return False
            elif value != branch:
                return False
        where = dimension.domain.where
        if where.test is not None:
            return answer(where.test, self.params(), dimension.path)
        return all(
            name in self._named and any(same(self._named[name], value) for value in values)
            for name, values in where.needs
        )

    def params(self) -> dict[str, Any]:
        """Return the configuration."""
        return _assembled(self.layout.root, self.values, "")


def drafted(layout: Layout, choose: Callable[[Dimension], Value]) -> Draft:
    """Set every live dimension to the chosen value."""
    draft = Draft(layout)
    for dimension in layout.order:
        if draft.live(dimension):
            draft.put(dimension, choose(dimension))
    return draft


def answer(test: Callable[[dict[str, Any]], bool], params: dict[str, Any], owner: str) -> bool:
    """Evaluate a user's condition.

    Raises
    ------
    SpaceError
        The condition failed.
    """
    try:
        return bool(test(deepcopy(params)))
    except Exception as error:
        raise SpaceError(
            f"where of {owner} must not fail, got {type(error).__name__}: {error}, for {params!r}, which has no "
            "dimensions that are not live"
        ) from error


def _assembled(group: Group, values: Mapping[str, Value], prefix: str) -> dict[str, Any]:
    params: dict[str, Any] = {}
    for name, entry in group.entries:
        path = beside(prefix, name)
        if isinstance(entry, Group):
            params[name] = _assembled(entry, values, path)
        elif path in values:
            params[name] = values[path]
            if isinstance(entry, Choice) and entry.branches is not None:
                branch = entry.branches[entry.options.index(values[path])]
                params |= _assembled(branch, values, within(path, values[path]))
            elif isinstance(entry, Repeat):
                places = range(int(values[path] or 0))
                params[name] = [_assembled(entry.block, values, within(path, place)) for place in places]
    return params
