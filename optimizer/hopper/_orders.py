"""Policies that follow an order: from a seed, or from a log."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

import numpy as np

from optimizer.hopper._errors import ScheduleError
from optimizer.hopper._ring import Rings

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from optimizer.hopper._queue import Queue
    from optimizer.hopper._remaining_work import Outlook
    from optimizer.hopper._unit import Placement

__all__ = ["Fixed", "Replay"]


class Fixed:
    """Policy by which every configuration visits the partitions in the order of a :class:`Ring`, whatever the timing.

    A worker may take any configuration whose next partition it holds: models do not depend on that choice. It takes one
    that is least far along its lineage, of those the one with the most work remaining. Later epochs use the seeds that
    follow ``seed``.
    """

    def __init__(self, seed: int, partitions: int) -> None:
        self._rings = Rings(seed, partitions)
        self._partitions = partitions
        self._orders = np.zeros((0, partitions), dtype=np.intp)

    def prepare(self, queue: Queue, config: int) -> None:
        """Draw the order of a configuration's epoch."""
        order = self._rings[queue.epochs[config]].order(queue.orders[config])
        done = queue.visited[order, config]
        if config >= len(self._orders):
            self._orders = np.pad(self._orders, ((0, config + 1), (0, 0)))
        # Finished partitions come first, so that their number is the position in the order.
        self._orders[config] = np.concatenate([order[done], order[~done]])

    def choose(self, queue: Queue, outlook: Outlook, worker: int) -> tuple[int, int] | None:
        """See :class:`Policy`."""
        available = np.flatnonzero(queue.idle & (queue.progress < self._partitions))
        ahead = self._orders[available, queue.progress[available]]
        here = queue.holds[worker, ahead]
        if not here.any():
            return None
        candidates, ahead = available[here], ahead[here]
        along = queue.along[candidates]
        earliest = along == along.min()
        candidates, ahead = candidates[earliest], ahead[earliest]
        place = int(outlook.remaining()[candidates].argmax())
        return int(candidates[place]), int(ahead[place])


class Replay:
    """The logged units, each on its worker, in the order of its worker and in that of its configuration.

    A unit that the log does not have is not run: the configuration was stopped before it. Units of a worker that is
    lost are run by any holder of the partition, because no model depends on the worker. ``placements`` are finished
    units by epoch; only the order of their starts counts.
    """

    def __init__(self, queue: Queue, placements: Mapping[int, Iterable[Placement]]) -> None:
        self._orders: dict[tuple[str, int], list[int]] = defaultdict(list)
        self._sequences: dict[str, list[tuple[str, int, int]]] = defaultdict(list)
        self._at: dict[int, int] = defaultdict(int)
        log = [(placement, epoch) for epoch, of_epoch in placements.items() for placement in of_epoch]
        for placement, epoch in sorted(log, key=lambda pair: (pair[0].start, pair[0].end)):
            config, partition = placement.unit.config, queue.partitions[placement.unit.partition]
            if partition in self._orders[config, epoch]:
                raise ScheduleError(
                    f"({placement.unit}) is in the log twice; leave out failed attempts", "completeness"
                )
            self._orders[config, epoch].append(partition)
            self._sequences[placement.worker].append((config, epoch, partition))

    def prepare(self, queue: Queue, config: int) -> None:
        """Keep the logged units of a configuration's epoch."""
        name = queue.names[config]
        queue.keep(config, self._orders.get((name, queue.epochs[config]), []))
        # Workers that have passed units which are to be done again start over, and skip what is finished.
        self._at.clear()

    def choose(self, queue: Queue, outlook: Outlook, worker: int) -> tuple[int, int] | None:  # by the log
        """See :class:`Policy`."""
        unit = next(self._remaining(queue, worker), None)
        if unit is not None and self._is_next(queue, *unit):
            return queue.configs[unit[0]], unit[2]
        for lost in set(queue.workers.values()) - queue.live:
            for name, epoch, partition in self._remaining(queue, lost):
                if queue.holds[worker, partition] and self._is_next(queue, name, epoch, partition):
                    return queue.configs[name], partition
        return None

    def _remaining(self, queue: Queue, worker: int) -> Iterator[tuple[str, int, int]]:
        """List a worker's units that are to be run yet, in their order."""
        sequence = self._sequences[queue.crew[worker]]
        while self._at[worker] < len(sequence) and not self._is_open(queue, *sequence[self._at[worker]]):
            self._at[worker] += 1
        for place in range(self._at[worker], len(sequence)):
            if self._is_open(queue, *sequence[place]):
                yield sequence[place]

    @staticmethod
    def _is_open(queue: Queue, name: str, epoch: int, partition: int) -> bool:
        config = queue.configs.get(name)
        if config is None:
            return True
        behind = epoch - queue.epochs[config]
        return config not in queue.ended and (behind > 0 or (not behind and not queue.visited[partition, config]))

    def _is_next(self, queue: Queue, name: str, epoch: int, partition: int) -> bool:
        config = queue.configs.get(name)
        if config is None or not queue.idle[config] or queue.epochs[config] != epoch:
            return False
        return partition == next(place for place in self._orders[name, epoch] if not queue.visited[place, config])
