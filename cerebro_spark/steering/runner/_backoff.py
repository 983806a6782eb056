"""Exponential backoff."""

from __future__ import annotations

import random

__all__ = ["Backoff"]

# Draws of a background thread from Python's own generator would change the results of seeded programs.
_CHANCE = random.SystemRandom()


class Backoff:
    """Delays between attempts: they double up to a limit, and each is shortened by chance, by half at most.

    Parameters
    ----------
    first_s : float
        First delay, in seconds.
    longest_s : float
        Longest delay, in seconds.

    Examples
    --------
    >>> backoff = Backoff(first_s=1.0, longest_s=3.0)
    >>> [1 <= 2 * backoff.next() <= 2, 2 <= 2 * backoff.next() <= 4, 3 <= 2 * backoff.next() <= 6]
    [True, True, True]
    """

    def __init__(self, first_s: float, longest_s: float) -> None:
        self._first_s = first_s
        self._longest_s = longest_s
        self._delay_s = first_s

    def next(self) -> float:
        """Return the next delay, in seconds."""
        delay_s, self._delay_s = self._delay_s, min(2 * self._delay_s, self._longest_s)
        # Many runners of one server do not come back at the same moment.
        return delay_s * _CHANCE.uniform(0.5, 1.0)

    def reset(self) -> None:
        """Begin with the first delay again."""
        self._delay_s = self._first_s
