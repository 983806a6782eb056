"""Remaining work in predicted seconds, by which policies choose."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from optimizer.hopper._queue import Queue
    from optimizer.hopper._times import UnitTimes

__all__ = ["Outlook"]


class Outlook:
    """The remaining work of a queue in predicted seconds.

    A unit counts as many seconds as on the fastest live worker that holds its partition.
    """

    def __init__(self, queue: Queue, times: UnitTimes) -> None:
        self.times = times
        self._queue = queue
        self._sizes = times.sizes(queue.numbers)
        self._changes = -1
        self._table: NDArray[np.float64] | None = None
        self._best = np.zeros((0, 0))
        self._configs = self._workers = np.zeros(0, dtype=np.intp)

    def remaining(self) -> NDArray[np.float64]:
        """Sum the seconds of each configuration's units, those in Q and those of its later epochs."""
        self._refresh()
        pending, ahead = self._queue.pending, self._queue.ahead
        if self._table is not None:
            return np.asarray(np.einsum("pc,pc->c", self._best, pending) + ahead * self._best.sum(axis=0))
        seconds = self._fastest() * self._sizes
        return np.asarray((seconds @ pending + ahead * seconds.sum()) * self.times.costs(self._configs))

    def in_epoch(self) -> NDArray[np.float64]:
        """Sum the seconds of each configuration's units in Q, those of the epoch that it is in."""
        self._refresh()
        pending = self._queue.pending
        if self._table is not None:
            return np.asarray(np.einsum("pc,pc->c", self._best, pending))
        return np.asarray(((self._fastest() * self._sizes) @ pending) * self.times.costs(self._configs))

    def of_units(self, worker: int, partition: int) -> NDArray[np.float64]:
        """Predict the seconds of each configuration's unit of a partition on a worker."""
        self._refresh()
        if self._table is not None:
            return np.asarray(self._table[:, worker])
        factor = self._slow()[worker] * self._sizes[partition]
        return np.asarray(factor * self.times.costs(self._configs))

    def pressure(self) -> NDArray[np.float64]:
        """Sum the seconds of each partition's units in Q, divided among its holders."""
        self._refresh()
        pending = self._queue.pending
        fastest = self._fastest()
        if self._table is not None:
            seconds = np.einsum("pc,pc->p", self._best, pending)
        else:
            seconds = pending @ self.times.costs(self._configs) * fastest * self._sizes
        # How many of the fastest its holders amount to.
        holders = (self._queue.holds * (fastest / self._slow()[:, None])).sum(axis=0)
        return np.asarray(seconds / np.where(holders > 0, holders, 1.0))

    def _refresh(self) -> None:
        """Look names up again if configurations or workers were added."""
        queue = self._queue
        if self._changes == queue.changes:
            return
        self._changes = queue.changes
        self._configs = np.array([self.times.config(name) for name in queue.names], dtype=np.intp)
        self._workers = np.array([self.times.worker(name) for name in queue.crew], dtype=np.intp)
        self._table = self.times.table(queue.names, queue.crew) if queue.names and queue.crew else None
        if self._table is not None:
            # A partition without a holder must not make a configuration look endless.
            holders = [column if column.any() else ~column for column in queue.holds.T]
            self._best = np.array([self._table[:, column].min(axis=1) for column in holders])

    def _slow(self) -> NDArray[np.float64]:
        if self._table is None:
            return self.times.slowness(self._workers)
        return np.asarray(np.exp(np.log(self._table).mean(axis=0)))

    def _fastest(self) -> NDArray[np.float64]:
        """Take the least slowness among the holders of each partition; 1 where there is none."""
        slowness = np.where(self._queue.holds, self._slow()[:, None], np.inf).min(axis=0, initial=np.inf)
        return np.where(np.isfinite(slowness), slowness, 1.0)
