"""Grid search."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ._listed import Listed
from ._sampling import check_space

if TYPE_CHECKING:
    from collections.abc import Mapping

    from optimizer.space import Space

__all__ = ["Grid"]


class Grid(Listed):
    """Train every configuration of a finite space, each for the same number of epochs.

    Parameters
    ----------
    space : Space
    epochs : int
    points : int or mapping of str to int, optional
        Values of each continuous dimension.
    concurrency : int, optional
        Most configurations beside each other; by default all.
    **settings
        Of :class:`Procedure`.

    Raises
    ------
    InvalidArgumentError
        It is no space, or a value is not allowed.
    SpaceError
        A continuous dimension without ``points``.
    """

    def __init__(
        self,
        space: Space,
        *,
        epochs: int,
        points: int | Mapping[str, int] | None = None,
        concurrency: int | None = None,
        **settings: Any,
    ) -> None:
        super().__init__(check_space(space).grid(points), epochs=epochs, concurrency=concurrency, **settings)
