"""The grid of a space: every combination of values, over live dimensions only."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from optimizer.errors import nearest
from optimizer.space._draft import Draft, answer
from optimizer.space._errors import SpaceError
from optimizer.space._plain import whole

if TYPE_CHECKING:
    from collections.abc import Iterator

    from optimizer.space._dimension import Dimension
    from optimizer.space._layout import Layout
    from optimizer.space._plain import Value
    from optimizer.space._where import Test

__all__ = ["grid"]

# More than anyone trains: a larger grid is a mistake, and would fill the driver's memory.
_MOST = 100_000


def grid(layout: Layout, where: Test | None, points: int | Mapping[str, int] | None) -> list[dict[str, Any]]:
    """See :meth:`Space.grid`."""
    points_of = _points(layout, points)
    values = {dimension.path: _values(dimension, points_of.get(dimension.name)) for dimension in layout.order}
    configurations = []
    for number, draft in enumerate(_expanded(layout, values)):
        if number == _MOST:
            raise SpaceError(f"the grid has more than {_MOST:,} configurations: give fewer values, or sample")
        params = draft.params()
        if where is None or answer(where, params, "the space"):
            configurations.append(params)
    if not configurations:
        raise SpaceError("no configuration of the grid satisfies the space's where=: change the domains")
    return configurations


def _points(layout: Layout, points: int | Mapping[str, int] | None) -> dict[str, int | None]:
    """Give the points of each name."""
    names = [dimension.name for dimension in layout.declared]
    if points is None:
        return {}
    if not isinstance(points, Mapping):
        return dict.fromkeys(names, _checked(points, "points"))
    for name in points:
        if name not in names:
            raise SpaceError(f"points={dict(points)!r}: no dimension {name!r}{nearest(str(name), names)}")
    return {name: _checked(number, f"points[{name!r}]") for name, number in points.items()}


def _checked(points: Any, field: str) -> int:
    number = whole(points, field, least=2)
    if number > _MOST:
        raise SpaceError(f"{field}={number}: a grid has at most {_MOST:,} configurations")
    return number


def _values(dimension: Dimension, points: int | None) -> list[Value]:
    if not dimension.log and (dimension.count or 0) > _MOST:
        raise SpaceError(
            f"{dimension.path}: {dimension.domain!r} has {dimension.count:,} values, and a grid at most {_MOST:,} "
            "configurations: give a larger step="
        )
    try:
        return dimension.domain.spread(points)
    except SpaceError as error:
        raise SpaceError(f"{dimension.path}: {error}") from None


def _expanded(layout: Layout, values: Mapping[str, list[Value]]) -> Iterator[Draft]:
    """Yield a draft for each combination, depth first, so that the last dimension varies fastest."""
    stack = [(Draft(layout), 0)]
    while stack:
        draft, place = stack.pop()
        while place < len(layout.order) and not draft.live(layout.order[place]):
            place += 1
        if place == len(layout.order):
            yield draft
            continue
        dimension = layout.order[place]
        for value in reversed(values[dimension.path]):
            branch = draft.copy()
            branch.put(dimension, value)
            stack.append((branch, place + 1))
