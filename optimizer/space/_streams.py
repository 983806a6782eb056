"""Seeded streams: words that depend on nothing but what they are asked for."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass

__all__ = ["Stream", "below", "share"]

_BITS = 128
_FLOAT_BITS = 53


@dataclass(frozen=True, slots=True)
class Stream:
    """The random words of one configuration.

    A word is a hash of the stream and of the name it is asked for. So no word depends on which others were asked for,
    and all machines and versions of Python and numpy give the same.

    Parameters
    ----------
    purpose : str
        What is drawn, so that a sample and a mutation of the same number differ.
    seed, number : int
        Of the user, and of the configuration.
    attempt : int
        How many configurations were rejected before.
    """

    purpose: str
    seed: int
    number: int
    attempt: int = 0

    def word(self, *name: str | int) -> int:
        """Hash to an integer of 128 bits."""
        text = json.dumps([self.purpose, self.seed, self.number, self.attempt, *name])
        return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=_BITS // 8).digest(), "big")


def share(word: int) -> float:
    """Make a float of a word, from 0 to below 1."""
    return (word >> (_BITS - _FLOAT_BITS)) / (1 << _FLOAT_BITS)


def below(word: int, count: int) -> int:
    """Make an integer of a word, from 0 to below ``count``."""
    return (word * count) >> _BITS
