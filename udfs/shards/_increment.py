"""Batch of growing data, with files of new rows and files of changes."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from udfs.documents import typed
from udfs.shards._prepared_data import FOLDER, PreparedData

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Self

    from udfs.shards._shard import Shard
    from udfs.store import Store

__all__ = ["Changes", "Increment", "changes_path", "records_path"]


@dataclass(frozen=True, slots=True)
class Changes:
    """Changes of earlier records in one shard by a batch.

    ``out`` counts earlier rows that no longer count, since their record has other features or the weight 0;
    ``corrected`` those with another label or weight.
    """

    split: str
    partition: int
    out: int
    corrected: int
    digest: str


@dataclass(frozen=True, slots=True)
class Increment:
    """Rows of one batch.

    ``data`` has shards with the records that are new, or have new features; some partitions may have none, and its
    fingerprint is of these rows alone. ``records`` has digests of the files with the records' ids, by the path of the
    shard.
    """

    data: PreparedData
    records: Mapping[str, str] = field(hash=False)
    changes: tuple[Changes, ...] = ()

    def shard(self, split: str, partition: int) -> Shard | None:
        """Return the shard of a partition; ``None`` where the batch has no row for it."""
        return next((shard for shard in self.data.shards if (shard.split, shard.partition) == (split, partition)), None)

    def changes_of(self, split: str, partition: int) -> Changes | None:
        """Return the changes in a shard; ``None`` where there are none."""
        return next(
            (changes for changes in self.changes if (changes.split, changes.partition) == (split, partition)), None
        )

    @property
    def rows(self) -> int:
        """Rows that are new, or have new features."""
        return sum(shard.rows for shard in self.data.shards)

    def to_dict(self) -> dict[str, Any]:
        """Convert for JSON."""
        return {
            "data": self.data.to_dict(),
            "records": dict(self.records),
            "changes": [asdict(changes) for changes in self.changes],
        }

    @classmethod
    def from_dict(cls, content: Mapping[str, Any], store: Store) -> Self:
        """Read what :meth:`to_dict` wrote, for the store where it lies now."""
        digests = typed(content, "records", dict)
        return cls(
            PreparedData.from_dict({**typed(content, "data", dict), "store": store.uri}),
            {path: typed(digests, path, str) for path in digests},
            tuple(_changes(entry) for entry in typed(content, "changes", list)),
        )


def records_path(name: str, split: str, partition: int) -> tuple[str, ...]:
    """Return the path of the file with the ids and labels of a batch's rows in a shard."""
    return (FOLDER, name, "records", f"{split}-{partition:05d}.parquet")


def changes_path(name: str, split: str, partition: int) -> tuple[str, ...]:
    """Return the path of the file with what a batch changed in a shard."""
    return (FOLDER, name, "changes", f"{split}-{partition:05d}.parquet")


def _changes(content: Mapping[str, Any]) -> Changes:
    counts = {name: typed(content, name, int) for name in ("partition", "out", "corrected")}
    if min(counts.values()) < 0:
        raise ValueError(f"the changes of a shard are {counts}")
    return Changes(split=typed(content, "split", str), digest=typed(content, "digest", str), **counts)
