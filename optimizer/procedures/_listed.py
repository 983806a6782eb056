"""Given configurations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ._sampling import ListedSampler
from ._sequential import Sequential

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = ["Listed"]


class Listed(Sequential):
    """Train given configurations, each for the same number of epochs.

    Parameters
    ----------
    configurations : iterable of mapping
    epochs : int
    concurrency : int, optional
        Most configurations beside each other; by default all.
    **settings
        Of :class:`Procedure`.

    Raises
    ------
    InvalidArgumentError
        No configuration, one that is no plain data, or another value that is not allowed.
    """

    def __init__(
        self,
        configurations: Iterable[Mapping[str, Any]],
        *,
        epochs: int,
        concurrency: int | None = None,
        **settings: Any,
    ) -> None:
        sampler = ListedSampler(configurations)
        count = len(sampler.configurations)
        super().__init__(sampler, configurations=count, epochs=epochs, concurrency=concurrency, **settings)
