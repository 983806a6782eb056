"""Seeded streams of random words, as hashes of names."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass

__all__ = ["Stream", "below", "share"]

_BITS = 128
_FLOAT_BITS = 53


@dataclass(frozen=True, slots=True)
class Stream:
    """Random words of a configuration.

    A word is a hash of the stream and a name. So a word does not depend on other words, and is the same on all machines
    and with all versions of Python and numpy. A sample and a mutation of the same number differ by ``purpose``.
    ``attempt`` is the number of configurations rejected before.
    """

    purpose: str
    seed: int
    number: int
    attempt: int = 0

    def word(self, *name: str | int) -> int:
        """Hash a name to an integer of 128 bits."""
        text = json.dumps([self.purpose, self.seed, self.number, self.attempt, *name])
        return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=_BITS // 8).digest(), "big")


def share(word: int) -> float:
    """Convert a word to a float from 0 to below 1."""
    return (word >> (_BITS - _FLOAT_BITS)) / (1 << _FLOAT_BITS)


def below(word: int, count: int) -> int:
    """Convert a word to an integer from 0 to below ``count``."""
    return (word * count) >> _BITS
