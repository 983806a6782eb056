"""Policies of the online scheduler: the choice of a unit for an idle worker."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np

from optimizer.hopper._orders import Fixed
from optimizer.hopper._ring import Rings

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from optimizer.hopper._queue import Queue
    from optimizer.hopper._remaining_work import Outlook

__all__ = ["LeastFarAlong", "LongestRemaining", "Policy", "Randomized"]

# Sums of the same seconds in another order are a tie.
_TIE = 1e-9


class Policy(Protocol):
    """A way to choose units. Configurations, partitions and workers go by their places in the queue."""

    def prepare(self, queue: Queue, config: int) -> None:
        """Prepare for a configuration that was added, or has entered another epoch."""

    def choose(self, queue: Queue, outlook: Outlook, worker: int) -> tuple[int, int] | None:
        """Choose a configuration and a partition for an idle worker, or ``None`` to let it wait."""


class Randomized:
    """Algorithms 1 and 2: a random unit among those that may run; Section 3.5.5 with replicas."""

    def __init__(self, seed: int) -> None:
        self._rng = np.random.default_rng(seed)

    def prepare(self, queue: Queue, config: int) -> None:
        """Do nothing."""

    def choose(self, queue: Queue, outlook: Outlook, worker: int) -> tuple[int, int] | None:  # needs no times
        """See :class:`Policy`."""
        partitions = queue.held[worker]
        units = np.flatnonzero((queue.pending[partitions] & queue.idle).ravel())
        if not len(units):
            return None
        row, config = divmod(int(units[self._rng.integers(len(units))]), len(queue.names))
        return config, int(partitions[row])


class LongestRemaining:
    """A list scheduler: the configuration with the most work remaining goes first, on the partition in most demand.

    Equal unit times make many ties, and their order matters: with 16 equal configurations on 16 workers a random order
    costs an eighth of the epoch. A tie goes to the configuration that starts on its epoch's ring nearest before this
    partition, which gives a Latin square.

    A single configuration visits the partitions in the order of :class:`Fixed`: no other order is faster, and two
    searches with the same seed then train the same model.

    Where every worker holds every partition, no configuration has to hop: a worker goes on with those whose state it
    has. In their last epoch it does not, for then all workers are to end together. ``seed`` is that of the first epoch.
    With ``elsewhere`` that work excludes the unit in question, so that only the work after it counts; the results
    differ where workers or costs are unequal.
    """

    def __init__(self, seed: int, partitions: int, *, elsewhere: bool) -> None:
        self._rings = Rings(seed, partitions)
        self._partitions = partitions
        self._elsewhere = elsewhere
        self._fixed = Fixed(seed, partitions)
        # Steps on the ring of its epoch from where a configuration starts to each partition.
        self._away = np.zeros((0, partitions), dtype=np.intp)

    def prepare(self, queue: Queue, config: int) -> None:
        """Find the place on the ring of its epoch at which a configuration starts."""
        self._fixed.prepare(queue, config)
        if config >= len(self._away):
            self._away = np.pad(self._away, ((0, config + 1), (0, 0)))
        ring = self._rings[queue.epochs[config]]
        self._away[config] = (ring.place - ring.start(config)) % self._partitions

    def choose(self, queue: Queue, outlook: Outlook, worker: int) -> tuple[int, int] | None:
        """See :class:`Policy`."""
        if len(queue.names) == 1:
            return self._fixed.choose(queue, outlook, worker)
        partitions = queue.held[worker]
        possible = queue.pending[partitions] & queue.idle
        rows = np.flatnonzero(possible.any(axis=1))
        if not len(rows):
            return None
        stay = self._residents(queue, worker, np.flatnonzero(possible.any(axis=0)))
        if len(stay):
            possible &= np.isin(np.arange(possible.shape[1]), stay)
            rows = np.flatnonzero(possible.any(axis=1))
        # With replicas the partition is chosen first: the one with most work per holder must not wait, or a slow
        # worker is left alone with it at the end.
        row = int(rows[0] if len(rows) == 1 else rows[outlook.pressure()[partitions[rows]].argmax()])
        partition, candidates = int(partitions[row]), self._first(queue, np.flatnonzero(possible[row]))
        if len(candidates) > 1:
            scores = self._work(outlook)[candidates]
            if self._elsewhere:
                scores = scores - outlook.of_units(worker, partition)[candidates]
            best = scores.max()
            candidates = candidates[scores >= best - _TIE * abs(best)]
        return int(candidates[self._away[candidates, partition].argmin()]), partition

    def _residents(self, queue: Queue, worker: int, candidates: NDArray[np.intp]) -> NDArray[np.intp]:
        """Find the configurations to train next whose state this worker has, if all workers hold all partitions."""
        if len(queue.live) == 1 or not queue.holds[list(queue.live)].all():
            return candidates[:0]
        first = self._first(queue, candidates)
        return np.asarray(first[(queue.resident[first] == worker) & (queue.ahead[first] > 0)])

    def _first(self, queue: Queue, candidates: NDArray[np.intp]) -> NDArray[np.intp]:  # all alike
        return candidates

    def _work(self, outlook: Outlook) -> NDArray[np.float64]:
        return outlook.remaining()


class LeastFarAlong(LongestRemaining):
    """Policy that prefers the earliest epoch of a lineage and, among those, the most work in the epoch.

    In one epoch this is :class:`LongestRemaining`. In a search, the configuration that has trained most must not keep
    the others from their next rung: a bracket's first rung would wait for the long epochs of another bracket, and its
    last configuration would train alone. Epochs that a configuration was granted beyond its own do not count, since a
    rung's promotions are not known yet.
    """

    def __init__(self, seed: int, partitions: int) -> None:
        super().__init__(seed, partitions, elsewhere=True)

    def _first(self, queue: Queue, candidates: NDArray[np.intp]) -> NDArray[np.intp]:
        along = queue.along[candidates]
        return np.asarray(candidates[along == along.min()])

    def _work(self, outlook: Outlook) -> NDArray[np.float64]:
        return outlook.in_epoch()
