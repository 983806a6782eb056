"""Random search."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from optimizer.procedures._sampling import RandomSampler
from optimizer.procedures._sequential import Sequential

if TYPE_CHECKING:
    from optimizer.space import Space

__all__ = ["RandomSearch"]


class RandomSearch(Sequential):
    """Train configurations that are drawn from a space: those of k are the first of 2k.

    Parameters
    ----------
    space : Space
    configurations : int
    epochs : int
        Of each.
    concurrency : int, optional
        Most configurations beside each other; by default all.
    seed : int
        Default 0.
    **settings
        Of :class:`Procedure`.

    Raises
    ------
    InvalidArgumentError
        A value that is not allowed.
    """

    def __init__(
        self,
        space: Space,
        *,
        configurations: int,
        epochs: int,
        concurrency: int | None = None,
        seed: int = 0,
        **settings: Any,
    ) -> None:
        super().__init__(
            RandomSampler(space, seed),
            configurations=configurations,
            epochs=epochs,
            concurrency=concurrency,
            **settings,
        )
