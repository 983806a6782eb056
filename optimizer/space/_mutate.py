"""Changes of configurations: perturbation, resampling of a dimension, and mutation."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

from optimizer.errors import nearest
from optimizer.space._draft import drafted
from optimizer.space._errors import SpaceError
from optimizer.space._plain_values import plain, real, same
from optimizer.space._repeat import Repeat
from optimizer.space._sample import accepted
from optimizer.space._streams import below, share
from optimizer.space._validation import read

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from optimizer.space._condition import Test
    from optimizer.space._dimension import Dimension
    from optimizer.space._layout import Layout
    from optimizer.space._plain_values import Value
    from optimizer.space._streams import Stream

__all__ = ["mutate", "perturb", "resample"]

_HALF = 0.5


def perturb(
    layout: Layout,
    where: Test | None,
    params: Mapping[str, Any],
    seed: int,
    number: int,
    factors: Sequence[float],
    chance: float,
    only: Collection[str] | None,
) -> dict[str, Any]:
    """See :meth:`Space.perturb`."""
    chance = real(chance, "resample")
    if not 0 <= chance <= 1:
        raise SpaceError(f"resample must be a probability from 0 to 1, got {chance!r}")
    factors = [real(factor, "factors") for factor in factors]
    if not factors or min(factors) <= 0:
        raise SpaceError(f"factors must be one or more numbers above 0, got {factors!r}")
    names = None if only is None else {_known(layout, name, "only") for name in only}
    old = read(layout, where, params)

    def changed(dimension: Dimension, value: Value, stream: Stream) -> Value:
        path = dimension.path
        if names is not None and dimension.name not in names:
            return value
        if share(stream.word(path, "resample")) < chance:
            return dimension.domain.draw(stream.word(path))
        factor = factors[below(stream.word(path, "factor"), len(factors))]
        return dimension.domain.moved(value, factor)

    return _changed(layout, where, "perturb", seed, number, old, changed)


def resample(
    layout: Layout, where: Test | None, params: Mapping[str, Any], name: str, seed: int, number: int
) -> dict[str, Any]:
    """See :meth:`Space.resample`."""
    name, old = _known(layout, name, "resample"), read(layout, where, params)
    if not any(dimension.name == name and dimension.path in old for dimension in layout.order):
        raise SpaceError(f"name must be a live dimension of {dict(params)!r}, got {name!r}")

    def changed(dimension: Dimension, value: Value, stream: Stream) -> Value:
        return dimension.domain.draw(stream.word(dimension.path)) if dimension.name == name else value

    return _changed(layout, where, "resample", seed, number, old, changed)


def mutate(layout: Layout, where: Test | None, params: Mapping[str, Any], seed: int, number: int) -> dict[str, Any]:
    """See :meth:`Space.mutate`."""
    old = read(layout, where, params)
    live = [dimension.path for dimension in layout.declared if dimension.path in old and dimension.domain.several]
    if not live:
        raise SpaceError(f"params must have a live dimension with a second value, got {dict(params)!r}")

    def changed(dimension: Dimension, value: Value, stream: Stream) -> Value:
        if dimension.path != live[below(stream.word("which"), len(live))]:
            return value
        if isinstance(dimension.domain, Repeat):
            # At a bound, the only other way.
            down = value == dimension.high or (value != dimension.low and share(stream.word(dimension.path)) < _HALF)
            return int(value or 0) + (-1 if down else 1)
        drawn = (dimension.domain.draw(stream.word(dimension.path, turn)) for turn in itertools.count())
        return next(other for other in drawn if not same(other, value))

    return _changed(layout, where, "mutate", seed, number, old, changed)


def _changed(
    layout: Layout,
    where: Test | None,
    purpose: str,
    seed: int,
    number: int,
    old: Mapping[str, Value],
    changed: Callable[[Dimension, Value, Stream], Value],
) -> dict[str, Any]:
    """Change live dimensions, draw those that become live, and drop the others."""

    def made(stream: Stream) -> dict[str, Any]:
        def chosen(dimension: Dimension) -> Value:
            if dimension.path in old:
                return changed(dimension, old[dimension.path], stream)
            return dimension.domain.draw(stream.word(dimension.path))

        return drafted(layout, chosen).params()

    return accepted(where, purpose, seed, number, made)


def _known(layout: Layout, name: Any, field: str) -> str:
    names = [dimension.name for dimension in layout.declared]
    if name not in names:
        close = nearest(str(name), names)
        raise SpaceError(f"{field} must be names of dimensions, {', '.join(names)}, got {name!r}{close}")
    return str(plain(name, field))
