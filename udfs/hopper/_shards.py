"""Shards that a worker holds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from udfs.shards import load_shard

if TYPE_CHECKING:
    from collections.abc import Collection

    from udfs.shards import PreparedData, Tensors

__all__ = ["Shards"]


class Shards:
    """A worker's shards, each loaded when it is first asked for.

    Parameters
    ----------
    limit_bytes : int
        Above it, shards are mapped from the node's disk.
    """

    def __init__(self, prepared: PreparedData, limit_bytes: int) -> None:
        self._prepared = prepared
        self._limit = limit_bytes
        self._loaded: dict[tuple[str, int], Tensors] = {}

    @property
    def memory_bytes(self) -> int:
        """Memory that the shards take."""
        return min(self._limit, self._total)

    @property
    def _total(self) -> int:
        return sum(map(_nbytes, self._loaded.values()))

    def get(self, split: str, partition: int) -> Tensors:
        """Return a shard of ``"train"`` or ``"validation"``."""
        shard = self._loaded.get((split, partition))
        if shard is None:
            room = max(0, self._limit - self._total)
            shard = load_shard(self._prepared, split, partition, memory_bytes=room)
            self._loaded[split, partition] = shard
        return shard

    def retain(self, partitions: Collection[int]) -> None:
        """Forget the shards of all other partitions."""
        for key in [key for key in self._loaded if key[1] not in partitions]:
            del self._loaded[key]


def _nbytes(shard: Tensors) -> int:
    return sum(array.nbytes for array in (*shard.inputs, *shard.labels))
