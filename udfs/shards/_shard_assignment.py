"""Assignment of records to shards by a hash of their id."""

from __future__ import annotations

import hashlib

from udfs.shards._prepared_data import SPLITS

__all__ = ["HELD_OF", "place_of"]

HELD_OF = 2**32
"""The number that the first 32 bits of an id's digest are out of."""

_DIGITS = 8


def place_of(record: str, *, seed: int, num_shards: int, test_fraction: float) -> tuple[str, int]:
    """Find the split and the shard of an id.

    Integer ids are in decimal digits. About ``test_fraction`` of all ids are for validation.

    SHA-256 of the seed and the id: its first 32 bits say whether the record is held out, the next 32 which shard it is
    in, and all of them which place it has among the records of one batch and shard. Spark has the same function.

    Examples
    --------
    >>> place_of("tweet-7", seed=0, num_shards=2, test_fraction=0.25)
    ('train', 1)
    """
    digest = hashlib.sha256(f"{seed}|{record}".encode()).hexdigest()
    is_validation = int(digest[:_DIGITS], 16) < round(test_fraction * HELD_OF)
    return SPLITS[is_validation], int(digest[_DIGITS : 2 * _DIGITS], 16) % num_shards
