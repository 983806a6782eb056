"""Replay protection for messages that may overtake each other: the sliding window of RFC 4303, section 3.4.3."""

from __future__ import annotations

__all__ = ["ReplayWindow"]


class ReplayWindow:
    """Numbers of one sender that were accepted already. Not for several threads at once.

    Every number is accepted at most once. One that is as far behind the highest as the window is long is refused,
    whether it was seen or not: nobody remembers.

    Parameters
    ----------
    size : int
        Numbers that are remembered. Default 4096: as many calls of a sender's threads may overtake one of them.

    Examples
    --------
    >>> window = ReplayWindow()
    >>> [window.accept(number) for number in (1, 3, 2, 3)]
    [True, True, True, False]
    """

    __slots__ = ("_highest", "_mask", "_seen", "_size")

    def __init__(self, size: int = 4096) -> None:
        self._size = size
        self._mask = (1 << size) - 1
        self._highest = 0
        self._seen = 0  # bit n: whether the number n below the highest was accepted

    def accept(self, number: int) -> bool:
        """Take a number, counted from 1.

        Returns
        -------
        bool
            ``False`` where it was accepted before, or is older than the window.
        """
        ahead = number - self._highest
        if ahead > 0:
            # A number of 64 bits would shift by as many places.
            self._seen = (self._seen << ahead | 1) & self._mask if ahead < self._size else 1
            self._highest = number
            return True
        behind = -ahead
        if number < 1 or behind >= self._size or self._seen >> behind & 1:
            return False
        self._seen |= 1 << behind
        return True
