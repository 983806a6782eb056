"""Policies of the online scheduler: which unit an idle worker gets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np

from ._ring import Ring

if TYPE_CHECKING:
    from ._outlook import Outlook
    from ._queue import Queue

__all__ = ["LongestRemaining", "Policy", "Randomized"]

# Sums of the same seconds in another order are a tie.
_TIE = 1e-9


class Policy(Protocol):
    """What decides. Configurations, partitions and workers go by their places in the queue."""

    def prepare(self, queue: Queue, config: int) -> None:
        """A configuration has joined, or has units to do again."""

    def choose(self, queue: Queue, outlook: Outlook, worker: int) -> tuple[int, int] | None:
        """The configuration and the partition to train on an idle worker, or ``None`` to let it wait."""


class Randomized:
    """Algorithms 1 and 2: a random unit among those that may run; Section 3.5.5 with replicas.

    Parameters
    ----------
    seed : int
    """

    def __init__(self, seed: int) -> None:
        self._rng = np.random.default_rng(seed)

    def prepare(self, queue: Queue, config: int) -> None:
        """Nothing to prepare."""

    def choose(self, queue: Queue, outlook: Outlook, worker: int) -> tuple[int, int] | None:  # noqa: ARG002 - needs no times
        """See :class:`Policy`."""
        held = queue.held[worker]
        units = np.flatnonzero((queue.pending[held] & queue.idle).ravel())
        if not len(units):
            return None
        row, config = divmod(int(units[self._rng.integers(len(units))]), len(queue.names))
        return config, int(held[row])


class LongestRemaining:
    """A list scheduler: the configuration with the most work left goes first, on the partition in most demand.

    Ties are what unit times that are equal are full of, and no order of theirs is as good as any: with 16 alike
    configurations on 16 workers a random one costs an eighth of the epoch. They go to the configuration that gets on a
    :class:`Ring` nearest before this partition, which makes it a Latin square there.

    Parameters
    ----------
    seed : int
    partitions : int
    elsewhere : bool
        Whether the unit in question is left out of that work: what counts is how much has to come after it. The two
        differ where workers do or where costs do.
    """

    def __init__(self, seed: int, partitions: int, *, elsewhere: bool) -> None:
        self._ring = Ring(seed, partitions)
        self._partitions = partitions
        self._elsewhere = elsewhere
        self._starts = np.zeros(0, dtype=np.intp)

    def prepare(self, queue: Queue, config: int) -> None:  # noqa: ARG002 - by its place alone
        """Find where on the ring a configuration gets on."""
        if config >= len(self._starts):
            self._starts = np.pad(self._starts, (0, config + 1))
        self._starts[config] = self._ring.start(config)

    def choose(self, queue: Queue, outlook: Outlook, worker: int) -> tuple[int, int] | None:
        """See :class:`Policy`."""
        held = queue.held[worker]
        possible = queue.pending[held] & queue.idle
        rows = np.flatnonzero(possible.any(axis=1))
        if not len(rows):
            return None
        # With replicas the partition comes first: what presses most on its holders must not wait for the rest, or it
        # is what a slow worker ends up with alone.
        row = int(rows[0] if len(rows) == 1 else rows[outlook.pressure()[held[rows]].argmax()])
        partition, found = int(held[row]), np.flatnonzero(possible[row])
        scores = outlook.left()[found]
        if self._elsewhere:
            scores = scores - outlook.own(worker, partition)[found]
        best = scores.max()
        found = found[scores >= best - _TIE * abs(best)]
        away = (self._ring.place[partition] - self._starts[found]) % self._partitions
        return int(found[away.argmin()]), partition
