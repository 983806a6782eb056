"""The candidates of a campaign, each for its own number of epochs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cerebro_spark.tune import Search, grid
from optimizer.procedures import Listed

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from optimizer.space import Space

__all__ = ["CandidateGrid"]


@dataclass(kw_only=True, eq=False)
class CandidateGrid(Search):
    """Train every configuration of a search space, each for the epochs that its trainer says.

    Parameters
    ----------
    search_space : mapping of str to sequence, sequence of mapping, or Space
        As for :class:`GridSearch`.
    epochs : sequence of int
        Of each configuration, in the order of the grid.
    **settings
        Of :class:`Search`.
    """

    search_space: Mapping[str, Any] | Sequence[Mapping[str, Any]] | Space
    epochs: Sequence[int]

    def procedure(self, *, metric: str | Sequence[str] = "loss", mode: str | Sequence[str] = "min") -> Listed:
        """See :meth:`Search.procedure`."""
        return Listed(grid(self.search_space), epochs=list(self.epochs), **self._rules(metric, mode))

    def sample(self) -> dict[str, Any]:
        """See :meth:`Search.sample`."""
        return grid(self.search_space)[0]
