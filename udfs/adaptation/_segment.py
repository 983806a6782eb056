"""The rows whose features lie in one file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from udfs.shards import GrowingData

__all__ = ["Segment", "segments_of"]


@dataclass(frozen=True, slots=True)
class Segment:
    """The rows that one batch brought to one shard.

    Parameters
    ----------
    increment : int
        Number of the batch.
    fingerprint : str
        Of the batch's rows: features are stored under it, so that they are never taken for those of other rows.
    split : {"train", "validation"}
    partition : int
    rows : int
        At least 1; also those that later batches took out.
    """

    increment: int
    fingerprint: str
    split: str
    partition: int
    rows: int


def segments_of(data: GrowingData) -> tuple[Segment, ...]:
    """List the segments of all batches and shards that have rows."""
    return tuple(
        Segment(number, increment.data.fingerprint, shard.split, shard.partition, shard.rows)
        for number, increment in enumerate(data.increments)
        for shard in increment.data.shards
    )
