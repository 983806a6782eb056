"""Description of rows that were sorted by group and written as shards."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from optimizer.grouping import Chunk
from optimizer.notebook import ExplainedInNotebooks
from udfs.documents import document, typed, write_document
from udfs.shards import FOLDER, PreparedData, ShardError, load_prepared

if TYPE_CHECKING:
    from collections.abc import Mapping

    from udfs.store import Store

__all__ = ["GroupedData", "index_path", "load_grouped"]

_DESCRIPTION = "_groups.json"


@dataclass(frozen=True, slots=True)
class GroupedData(ExplainedInNotebooks):
    """Rows that were sorted by group and written as shards, each with an index of its groups.

    Parameters
    ----------
    prepared : PreparedData
        Shards. The rows of a group are adjacent: first those to train on, then those held out.
    group_by : tuple of str
        Columns of the keys, from the outermost level to the innermost.
    types : tuple of str
        Spark's types of these columns.
    chunks : tuple of Chunk
        Groups of the shards, in parts of similar cost.
    levels : tuple of int
        Number of groups at each level. Level 0 has all rows, level 1 a group for each value of the first column, and so
        on.
    sizes : mapping of str to int
        Complete rows of the smallest, the median and the largest group of the last level.
    """

    prepared: PreparedData
    group_by: tuple[str, ...]
    types: tuple[str, ...]
    chunks: tuple[Chunk, ...]
    levels: tuple[int, ...]
    sizes: Mapping[str, int]

    def explain(self) -> str:
        """Describe the groups and the shards."""
        least, median, most = (self.sizes[name] for name in ("least", "median", "most"))
        return (
            f"{self.levels[-1]:,} groups by {', '.join(self.group_by)}, with {least:,} to {most:,} rows "
            f"(median {median:,}), in {len(self.prepared.shards)} shards of {self.prepared.name!r} in "
            f"{self.prepared.store.uri}"
        )

    def save(self) -> None:
        """Write the descriptions of the groups and of the shards, once all shards are there.

        Raises
        ------
        udfs.store.StoreError
            The store cannot be written.
        """
        content: dict[str, Any] = {
            "fingerprint": self.prepared.fingerprint,
            "group_by": self.group_by,
            "types": self.types,
            "chunks": [asdict(chunk) for chunk in self.chunks],
            "levels": self.levels,
            "sizes": dict(self.sizes),
        }
        write_document(self.prepared.store, content, FOLDER, self.prepared.name, _DESCRIPTION)
        self.prepared.save()


def load_grouped(store: Store, name: str) -> GroupedData:
    """Read the description of grouped rows.

    Raises
    ------
    ShardError
        There are no grouped rows of that name, or the description is damaged.
    """
    prepared = load_prepared(store, name)
    if not store.exists(FOLDER, name, _DESCRIPTION):
        raise ShardError(f"name must be of data that GroupedSearch.prepare wrote, got {name!r}. Prepare the rows again")
    with document(store, FOLDER, name, _DESCRIPTION, remedy="prepare the rows again") as content:
        if content["fingerprint"] != prepared.fingerprint:
            raise ValueError("it is of other rows")
        return GroupedData(
            prepared,
            tuple(typed(content, "group_by", list)),
            tuple(typed(content, "types", list)),
            tuple(Chunk(**chunk) for chunk in typed(content, "chunks", list)),
            tuple(typed(content, "levels", list)),
            typed(content, "sizes", dict),
        )


def index_path(name: str, shard: int) -> tuple[str, ...]:
    """Return the path of a shard's index within the store."""
    return (FOLDER, name, "groups", f"index-{shard:05d}.parquet")
