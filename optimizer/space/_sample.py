"""Random configurations, and rejection by the condition of a space."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from optimizer.space._draft import answer, drafted
from optimizer.space._errors import SpaceError
from optimizer.space._plain_values import whole
from optimizer.space._streams import Stream

if TYPE_CHECKING:
    from collections.abc import Callable

    from optimizer.space._condition import Test
    from optimizer.space._layout import Layout

__all__ = ["accepted", "sample"]

_ATTEMPTS = 1000


def sample(layout: Layout, where: Test | None, seed: int, number: int) -> dict[str, Any]:
    """See :meth:`Space.sample`."""
    return accepted(
        where,
        "sample",
        seed,
        number,
        lambda stream: drafted(layout, lambda dimension: dimension.domain.draw(stream.word(dimension.path))).params(),
    )


def accepted(
    where: Test | None, purpose: str, seed: int, number: int, make: Callable[[Stream], dict[str, Any]]
) -> dict[str, Any]:
    """Create configurations from successive streams until the space's condition holds.

    Raises
    ------
    SpaceError
        The seed or the number is not an integer, or no configuration was accepted.
    """
    seed, number = whole(seed, "seed"), whole(number, "number", least=0)
    for attempt in range(_ATTEMPTS):
        params = make(Stream(purpose, seed, number, attempt))
        if where is None or answer(where, params, "the space"):
            return params
    raise SpaceError(
        f"one of {_ATTEMPTS} configurations must satisfy the space's where=, got none, the last one {params!r}: change "
        "the domains so that more of them do"
    )
