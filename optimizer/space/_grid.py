"""Grid of a space: all combinations of values of live dimensions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from optimizer.errors import nearest
from optimizer.space._draft import Draft, answer
from optimizer.space._errors import SpaceError
from optimizer.space._plain_values import whole

if TYPE_CHECKING:
    from collections.abc import Iterator

    from optimizer.space._condition import Test
    from optimizer.space._dimension import Dimension
    from optimizer.space._layout import Layout
    from optimizer.space._plain_values import Value

__all__ = ["grid"]

# A larger grid is a mistake, and would fill the driver's memory.
_MOST = 100_000


def grid(layout: Layout, where: Test | None, points: int | Mapping[str, int] | None) -> list[dict[str, Any]]:
    """See :meth:`Space.grid`."""
    points_of = _points(layout, points)
    values = {dimension.path: _values(dimension, points_of.get(dimension.name)) for dimension in layout.order}
    configurations = []
    for number, draft in enumerate(_expanded(layout, values)):
        if number == _MOST:
            raise SpaceError(
                f"the grid must have at most {_MOST:,} configurations, got more: use fewer values, or sample"
            )
        params = draft.params()
        if where is None or answer(where, params, "the space"):
            configurations.append(params)
    if not configurations:
        raise SpaceError(
            "the grid must have a configuration that satisfies the space's where=, got none: change the domains"
        )
    return configurations


def _points(layout: Layout, points: int | Mapping[str, int] | None) -> dict[str, int | None]:
    """Return the number of points by name."""
    names = [dimension.name for dimension in layout.declared]
    if points is None:
        return {}
    if not isinstance(points, Mapping):
        return dict.fromkeys(names, _checked(points, "points"))
    for name in points:
        if name not in names:
            raise SpaceError(f"points must have names of dimensions, got {name!r}{nearest(str(name), names)}")
    return {name: _checked(number, f"points[{name!r}]") for name, number in points.items()}


def _checked(points: Any, field: str) -> int:
    number = whole(points, field, least=2)
    if number > _MOST:
        raise SpaceError(f"{field} must be at most {_MOST:,}, got {number}")
    return number


def _values(dimension: Dimension, points: int | None) -> list[Value]:
    if not dimension.log and (dimension.count or 0) > _MOST:
        raise SpaceError(
            f"{dimension.path} must have at most {_MOST:,} values in a grid, got {dimension.domain!r} with "
            f"{dimension.count:,}: use a larger step="
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
