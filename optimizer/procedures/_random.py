"""Random search."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from optimizer.procedures._sampling import RandomSampler
from optimizer.procedures._sequential import Sequential

if TYPE_CHECKING:
    from optimizer.space import Space

__all__ = ["RandomSearch"]


class RandomSearch(Sequential):
    """Train random configurations of a space. The first k of 2k configurations are those of a search of k.

    Parameters
    ----------
    epochs : int
        Epochs of each configuration.
    concurrency : int, optional
        Most configurations that train at the same time; by default all.
    seed : int
        Seed of the configurations. Default 0.
    **settings
        Settings of :class:`Procedure`.

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
