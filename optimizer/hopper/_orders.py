"""Policies that follow an order: one that the seed gives, or one that was logged."""

from __future__ import annotations

from collections import defaultdict
from operator import attrgetter
from typing import TYPE_CHECKING

import numpy as np

from ._errors import ScheduleError, unknown
from ._ring import Ring

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ._outlook import Outlook
    from ._queue import Queue
    from ._unit import Placement

__all__ = ["Fixed", "Replay"]


class Fixed:
    """Every configuration visits the partitions in the order of a :class:`Ring`, whatever the timing.

    Among the configurations that stand before it a worker may take any: their models do not depend on that. It takes
    the one with the most work left.

    Parameters
    ----------
    seed : int
    partitions : int
    """

    def __init__(self, seed: int, partitions: int) -> None:
        self._ring = Ring(seed, partitions)
        self._partitions = partitions
        self._orders = np.zeros((0, partitions), dtype=np.intp)

    def prepare(self, queue: Queue, config: int) -> None:
        """Draw the order of a configuration."""
        order = self._ring.order(config)
        done = queue.visited[order, config]
        if config >= len(self._orders):
            self._orders = np.pad(self._orders, ((0, config + 1), (0, 0)))
        # What is done comes first, so that as many as are done is how far it is.
        self._orders[config] = np.concatenate([order[done], order[~done]])

    def choose(self, queue: Queue, outlook: Outlook, worker: int) -> tuple[int, int] | None:
        """See :class:`Policy`."""
        going = np.flatnonzero(queue.idle & (queue.progress < self._partitions))
        ahead = self._orders[going, queue.progress[going]]
        here = queue.holds[worker, ahead]
        if not here.any():
            return None
        found, ahead = going[here], ahead[here]
        place = int(outlook.left()[found].argmax())
        return int(found[place]), int(ahead[place])


class Replay:
    """The logged units, each on its worker, in the order of its worker and in that of its configuration.

    A unit that the log does not have is not run: the configuration was stopped before it.

    Parameters
    ----------
    queue : Queue
        With the partitions of the log.
    placements : iterable of Placement
        Units that finished. Only the order of their starts counts, not the times.
    """

    def __init__(self, queue: Queue, placements: Iterable[Placement]) -> None:
        self._orders: dict[str, list[int]] = defaultdict(list)
        self._sequences: dict[str, list[tuple[str, int]]] = defaultdict(list)
        self._at: dict[int, int] = defaultdict(int)
        for one in sorted(placements, key=attrgetter("start", "end")):
            config, partition = one.unit.config, queue.partitions[one.unit.partition]
            if partition in self._orders[config]:
                raise ScheduleError(f"({one.unit}) is in the log twice; leave out attempts that failed", "completeness")
            self._orders[config].append(partition)
            self._sequences[one.worker].append((config, partition))

    def prepare(self, queue: Queue, config: int) -> None:
        """Only what was logged can be replayed."""
        name = queue.names[config]
        if name not in self._orders:
            raise unknown("configuration in the log", name, self._orders)
        queue.keep(config, self._orders[name])
        # Whoever has gone past units that are to be done again starts over, and passes what is finished.
        self._at.clear()

    def choose(self, queue: Queue, outlook: Outlook, worker: int) -> tuple[int, int] | None:  # noqa: ARG002 - by the log
        """See :class:`Policy`."""
        sequence = self._sequences[queue.crew[worker]]
        while self._at[worker] < len(sequence):
            name, partition = sequence[self._at[worker]]
            config = queue.configs[name]
            if config not in queue.ended and not queue.visited[partition, config]:
                ahead = next(one for one in self._orders[name] if not queue.visited[one, config])
                return (config, partition) if queue.idle[config] and ahead == partition else None
            self._at[worker] += 1
        return None
