"""Exponential backoff of attempts to reach a server."""

from __future__ import annotations

import random

__all__ = ["Backoff"]

# Draws of a background thread from Python's own generator would change the results of seeded programs.
_CHANCE = random.SystemRandom()

_FIRST_S, _LONGEST_S = 0.25, 5.0


class Backoff:
    """Delays between attempts, from 0.25 s: they double up to 5 s, and each is shortened by chance, by half at most.

    Examples
    --------
    >>> backoff = Backoff()
    >>> [0.25 <= 2 * backoff.next() <= 0.5, 0.5 <= 2 * backoff.next() <= 1]
    [True, True]
    """

    def __init__(self) -> None:
        self._delay_s = _FIRST_S

    def next(self) -> float:
        """Return the next delay, in seconds."""
        delay_s, self._delay_s = self._delay_s, min(2 * self._delay_s, _LONGEST_S)
        # Many runners of one server do not come back at the same moment.
        return delay_s * _CHANCE.uniform(0.5, 1.0)

    def reset(self) -> None:
        """Begin with the first delay again."""
        self._delay_s = _FIRST_S
