"""The rows whose features lie in one file."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from udfs.shards import GrowingData

__all__ = ["COPY", "Segment", "segments_of"]

COPY = "copy"
"""With what the fingerprint of augmented records begins; no batch of labels has such a one."""


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
    copy : int, optional
        Number of the augmented copy of the rows, whose fingerprint tells it from others. Default ``None``: the rows
        themselves.
    """

    increment: int
    fingerprint: str
    split: str
    partition: int
    rows: int
    copy: int | None = None

    def copied(self, copy: int, fingerprint: str) -> Segment:
        """Give an augmented copy of the rows, under another fingerprint."""
        return replace(self, copy=copy, fingerprint=fingerprint)


def segments_of(data: GrowingData) -> tuple[Segment, ...]:
    """List the segments of all batches and shards that have rows."""
    return tuple(
        Segment(number, increment.data.fingerprint, shard.split, shard.partition, shard.rows)
        for number, increment in enumerate(data.increments)
        for shard in increment.data.shards
    )
