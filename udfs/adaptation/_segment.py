"""Segments of rows whose features share a file."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from udfs.shards import GrowingData

__all__ = ["COPY", "Segment", "segments_of"]

COPY = "copy"
"""Prefix of fingerprints of augmented records, which no batch of labels has."""


@dataclass(frozen=True, slots=True)
class Segment:
    """Rows of one batch in one shard.

    ``increment`` is the number of the batch, and ``fingerprint`` that of its rows, under which features are stored.
    ``rows`` counts those too that later batches removed. ``copy`` is the number of the augmented copy, ``None`` without
    augmentation.
    """

    increment: int
    fingerprint: str
    split: str
    partition: int
    rows: int
    copy: int | None = None

    def copied(self, copy: int, fingerprint: str) -> Segment:
        """Return the segment of an augmented copy with another fingerprint."""
        return replace(self, copy=copy, fingerprint=fingerprint)


def segments_of(data: GrowingData) -> tuple[Segment, ...]:
    """List the segments of all batches and shards that have rows."""
    return tuple(
        Segment(number, increment.data.fingerprint, shard.split, shard.partition, shard.rows)
        for number, increment in enumerate(data.increments)
        for shard in increment.data.shards
    )
