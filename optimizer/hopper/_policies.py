"""Policies of the online scheduler: the choice of a unit for an idle worker."""

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
    """A way to choose units. Configurations, partitions and workers go by their places in the queue."""

    def prepare(self, queue: Queue, config: int) -> None:
        """Prepare for a configuration that was added, or that has reopened units."""

    def choose(self, queue: Queue, outlook: Outlook, worker: int) -> tuple[int, int] | None:
        """Choose a configuration and a partition for an idle worker, or ``None`` to let it wait."""


class Randomized:
    """Algorithms 1 and 2: a random unit among those that may run; Section 3.5.5 with replicas.

    Parameters
    ----------
    seed : int
    """

    def __init__(self, seed: int) -> None:
        self._rng = np.random.default_rng(seed)

    def prepare(self, queue: Queue, config: int) -> None:
        """Do nothing."""

    def choose(self, queue: Queue, outlook: Outlook, worker: int) -> tuple[int, int] | None:  # noqa: ARG002 - needs no times
        """See :class:`Policy`."""
        held = queue.held[worker]
        units = np.flatnonzero((queue.pending[held] & queue.idle).ravel())
        if not len(units):
            return None
        row, config = divmod(int(units[self._rng.integers(len(units))]), len(queue.names))
        return config, int(held[row])


class LongestRemaining:
    """A list scheduler: the configuration with the most work remaining goes first, on the partition in most demand.

    Equal unit times make many ties, and their order matters: with 16 equal configurations on 16 workers a random order
    costs an eighth of the epoch. A tie goes to the configuration that starts on a :class:`Ring` nearest before this
    partition, which gives a Latin square.

    Parameters
    ----------
    seed : int
    partitions : int
    elsewhere : bool
        Whether that work excludes the unit in question, so that only the work after it counts. The results differ
        where workers or costs are unequal.
    """

    def __init__(self, seed: int, partitions: int, *, elsewhere: bool) -> None:
        self._ring = Ring(seed, partitions)
        self._partitions = partitions
        self._elsewhere = elsewhere
        self._starts = np.zeros(0, dtype=np.intp)

    def prepare(self, queue: Queue, config: int) -> None:  # noqa: ARG002 - by its place alone
        """Find the place on the ring at which a configuration starts."""
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
        # With replicas the partition is chosen first: the one with most work per holder must not wait, or a slow
        # worker is left alone with it at the end.
        row = int(rows[0] if len(rows) == 1 else rows[outlook.pressure()[held[rows]].argmax()])
        partition, candidates = int(held[row]), np.flatnonzero(possible[row])
        scores = outlook.remaining()[candidates]
        if self._elsewhere:
            scores = scores - outlook.of_units(worker, partition)[candidates]
        best = scores.max()
        candidates = candidates[scores >= best - _TIE * abs(best)]
        away = (self._ring.place[partition] - self._starts[candidates]) % self._partitions
        return int(candidates[away.argmin()]), partition
