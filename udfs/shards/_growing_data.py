"""Prepared data that grow batch by batch: a record keeps its split and its shard, and what is computed of it."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from udfs.documents import typed
from udfs.shards._increment import Increment
from udfs.shards._ledger import Ledger
from udfs.shards._prepared_data import SPLITS, Part, PreparedData, ShardError, read_description, shard_path
from udfs.shards._shard import Shard, Tensors
from udfs.shards._shard_assignment import place_of
from udfs.store import Store

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Self

__all__ = ["GrowingData", "increment_name", "load_labels", "load_prepared"]

# Of the description; a release that knows versions 1 and 2 alone cannot read it.
_VERSION = 3


@dataclass(frozen=True, slots=True)
class GrowingData(PreparedData):
    """The rows of all batches so far. Made by ``cerebro_spark.data.prepare_increment``; train on it as on any other.

    The split and the shard of a record follow from its id and the seed alone, so they never change. The rows of a shard
    are those of the first batch, then those of the second, and so on; within a batch they are in the order of a hash of
    the seed and the id. A record that comes again with another label or weight stays where it is. One that comes again
    with other features is taken out there, and is a row of the later batch. ``increments`` has an entry for each batch;
    the other fields are those of :class:`PreparedData`, over all of them. ``num_shards`` is for each split, and
    ``id_column`` names a record.
    """

    increments: tuple[Increment, ...] = ()
    num_shards: int = 1
    id_column: str = ""

    @classmethod
    def of(cls, name: str, increments: Sequence[Increment], *, num_shards: int, id_column: str) -> Self:
        """Put increments together: at least one, all of the same columns and settings."""
        first = increments[0].data
        row_bytes = sum(group.nbytes for group in first.groups)
        shards = [
            _shard(increments, split, partition, row_bytes) for split in SPLITS for partition in range(num_shards)
        ]
        dropped: Counter[str] = Counter()
        for increment in increments:
            dropped.update(increment.data.dropped)
        return cls(
            store=first.store,
            name=name,
            inputs=first.inputs,
            labels=first.labels,
            # A training shard all of whose records went out is told by check().
            shards=tuple(shard for shard in shards if shard.rows or shard.split == SPLITS[0]),
            seed=first.seed,
            test_fraction=first.test_fraction,
            fingerprint=_fingerprint(increments, num_shards, id_column),
            dropped=dict(dropped),
            weights=first.weights,
            zero_weights=sum(increment.data.zero_weights for increment in increments),
            increments=tuple(increments),
            num_shards=num_shards,
            id_column=id_column,
        )

    def place(self, record: str) -> tuple[str, int]:
        """Find the split and the shard of an id, whether there is a record of it or not: :func:`place_of`."""
        return place_of(record, seed=self.seed, num_shards=self.num_shards, test_fraction=self.test_fraction)

    def parts(self, shard: Shard) -> tuple[Part, ...]:
        """List the files that a shard's rows are in, in order; errors as :meth:`PreparedData.parts`."""
        edits = Ledger(self.increments, shard.split, shard.partition).edits()
        return tuple(
            Part(increment.data.path(shard_file), shard_file.rows, shard_file.digest, edited.keep, edited.corrected)
            for increment, edited in zip(self.increments, edits, strict=True)
            if (shard_file := increment.shard(shard.split, shard.partition)) is not None
        )

    @property
    def missing(self) -> tuple[str, ...]:
        """Paths of the shards whose files are not in the store."""
        return tuple(
            f"{increment.data.name}/{path}" for increment in self.increments for path in increment.data.missing
        )

    @property
    def remedy(self) -> str:
        """Advice for a file that is damaged."""
        return "give the batches again, from the first on and under another name: cerebro_spark.data.prepare_increment"

    def path(self, shard: Shard) -> tuple[str, ...]:
        """Refuse: the rows of a shard are in several files, those of :meth:`parts`."""
        raise self._in_parts(f"shard {shard.path!r}")

    def url(self, split: str) -> str:
        """Refuse: the rows of a split are in several folders, a batch's own in ``increments[n].data.url(split)``."""
        raise self._in_parts(f"the split {split!r}")

    def _in_parts(self, what: str) -> ShardError:
        return ShardError(
            f"{what} of {self.name!r}, which grows by batches, is in several files, and not all of their rows count "
            "any more: udfs.shards.load_shard reads them; increments[n].data are the rows of one batch"
        )

    def explain(self) -> str:
        """Describe the rows: columns, shards and batches."""
        lines = [PreparedData.explain(self), f"  {'batch':>9} {'new rows':>13} {'taken out':>15} {'corrected':>9}"]
        for number, increment in enumerate(self.increments):
            out, corrected = (
                sum(getattr(changes, name) for changes in increment.changes) for name in ("out", "corrected")
            )
            lines.append(f"  {number:>9} {increment.rows:>13,} {out:>15,} {corrected:>9,}")
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """Convert for JSON."""
        return {
            "version": _VERSION,
            "num_shards": self.num_shards,
            "id_column": self.id_column,
            "increments": [increment.to_dict() for increment in self.increments],
        }

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Self:
        """Read what :meth:`to_dict` wrote, with the ``store`` and the ``name`` where it lies now.

        Raise ShardError if another version wrote it, or it does not grow.
        """
        if content.get("version") != _VERSION:
            raise ShardError(
                f"{content.get('name')!r} is a preparation of version {content.get('version')!r}, and growing data are "
                f"of version {_VERSION}: give the batches again, under another name"
            )
        store, name = Store(typed(content, "store", str)), typed(content, "name", str)
        increments = [Increment.from_dict(entry, store) for entry in typed(content, "increments", list)]
        if not increments or typed(content, "num_shards", int) < 1:
            raise ShardError(f"{name!r} has no batch: give them again, under another name")
        return cls.of(
            name,
            increments,
            num_shards=typed(content, "num_shards", int),
            id_column=typed(content, "id_column", str),
        )


def increment_name(name: str, number: int) -> str:
    """Name the folder of a batch, which lies in that of the data that it was first part of."""
    return f"{name}/{number:04d}"


def load_prepared(store: Store, name: str) -> PreparedData:
    """Read what was prepared under a name, whether it grows or not.

    Raise ShardError if nothing was prepared under the name, or its description is damaged.
    """
    return read_description(
        store,
        name,
        lambda content: (GrowingData if content.get("version") == _VERSION else PreparedData).from_dict(content),
    )


def load_labels(data: GrowingData, split: str, partition: int) -> Tensors:
    """Read the labels and weights of a shard, without its inputs; the rows are those of :func:`load_shard`.

    Raises
    ------
    ShardError, udfs.store.StoreError
        As :func:`load_shard`.
    """
    shard = data.shard(split, partition)
    arrays = Ledger(data.increments, split, partition).labels()
    labels = tuple(arrays[: len(data.labels)])
    return Tensors((), labels, shard.rows, None if data.weights is None else arrays[-1])


def _shard(increments: Sequence[Increment], split: str, partition: int, row_bytes: int) -> Shard:
    shards = [shard for increment in increments if (shard := increment.shard(split, partition)) is not None]
    changes = [change for increment in increments if (change := increment.changes_of(split, partition)) is not None]
    rows = sum(shard.rows for shard in shards) - sum(change.out for change in changes)
    digests = [shard.digest for shard in shards] + [change.digest for change in changes]
    digest = hashlib.blake2b("\n".join(digests).encode(), digest_size=16).hexdigest()
    return Shard(split, partition, shard_path(split, partition), rows, rows * row_bytes, digest)


def _fingerprint(increments: Sequence[Increment], num_shards: int, id_column: str) -> str:
    facts = {
        "num_shards": num_shards,
        "id_column": id_column,
        "batches": [
            [increment.data.fingerprint, dict(increment.records), [changes.digest for changes in increment.changes]]
            for increment in increments
        ],
    }
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()
