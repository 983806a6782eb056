"""Grid search."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from optimizer.errors import InvalidArgumentError

from ._listed import Listed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ._sampling import Space

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
        The space has no grid, or a value is not allowed.
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
        if not callable(getattr(space, "grid", None)):
            raise InvalidArgumentError(f"space={space!r}: a search space, or Listed(configurations)")
        super().__init__(space.grid(points), epochs=epochs, concurrency=concurrency, **settings)
