"""Search over a grid whose configurations train different numbers of epochs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from cerebro_spark.tune import Search, Strategy, grid
from optimizer.procedures import Listed

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from optimizer.space import Space

__all__ = ["CandidateGrid"]


@dataclass(kw_only=True, eq=False)
class CandidateGrid(Search):
    """Train every configuration of a search space, each for the epochs of its trainer.

    All settings of :class:`Search` are keyword arguments too. ``epochs`` are in the order of the grid.
    """

    search_space: Mapping[str, Any] | Sequence[Mapping[str, Any]] | Space
    epochs: Sequence[int]

    @property
    def strategy(self) -> Strategy:
        """See :attr:`Search.strategy`."""
        configurations = grid(self.search_space)
        return Strategy(partial(Listed, configurations, epochs=list(self.epochs)), lambda: configurations)
