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

    Parameters
    ----------
    increment : int
        Number of the batch.
    fingerprint : str
        Fingerprint of the batch's rows, under which features are stored.
    rows : int
        Number of rows, at least 1, with those that later batches removed.
    copy : int, optional
        Number of the augmented copy. Default ``None``: rows without augmentation.
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
