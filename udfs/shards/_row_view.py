"""Row views: the rows of a shard as a configuration reads them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from udfs.shards._groups import TensorGroup
    from udfs.shards._shard import Shard, Tensors

__all__ = ["RowView"]


class RowView(Protocol):
    """Rows of shards as one configuration reads them; ``ModelTrainer(view=...)`` chooses it.

    A view reads a shard's arrays where they are, so that configurations with different views share one copy. The
    arrays that it returns need not be numpy's: they have ``shape``, ``dtype``, ``nbytes`` and ``len``, and indexing
    them with a slice or an array of row numbers returns numpy arrays.
    """

    @property
    def span(self) -> int:
        """Number of successive rows of a series that each row of the view is made of; 1 for rows by themselves."""

    @property
    def maps_labels(self) -> bool:
        """True if labels may have other values than in the shards."""

    def groups(
        self, inputs: tuple[TensorGroup, ...], labels: tuple[TensorGroup, ...]
    ) -> tuple[tuple[TensorGroup, ...], tuple[TensorGroup, ...]]:
        """Return the inputs and labels that the network sees, for those of the shards.

        Raises
        ------
        udfs.training.TrainerError
            The shards have no such inputs or labels.
        """

    def count(self, shard: Shard) -> int:
        """Return the number of rows that the network sees of a shard.

        Raises
        ------
        udfs.training.TrainerError
            The shards are not suitable for the view.
        """

    def notes(self, shards: Sequence[Shard]) -> list[str]:
        """Describe rows of the shards that the network does not see, in a sentence each."""

    def rows_to_read(self, shard: Shard, rows: int) -> int:
        """Return how many rows of a shard, from the first on, contain the first ``rows`` rows of the view."""

    def apply(self, rows: Tensors) -> Tensors:
        """Return the rows that the network sees, for rows of a shard from the first on."""
