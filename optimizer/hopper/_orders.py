"""Policies that follow an order: from a seed, or from a log."""

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

    A worker may take any configuration whose next partition it holds: models do not depend on that choice. It takes
    the one with the most work remaining.

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
        place = int(outlook.remaining()[candidates].argmax())
        return int(candidates[place]), int(ahead[place])


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
        for placement in sorted(placements, key=attrgetter("start", "end")):
            config, partition = placement.unit.config, queue.partitions[placement.unit.partition]
            if partition in self._orders[config]:
                raise ScheduleError(
                    f"({placement.unit}) is in the log twice; leave out failed attempts", "completeness"
                )
            self._orders[config].append(partition)
            self._sequences[placement.worker].append((config, partition))

    def prepare(self, queue: Queue, config: int) -> None:
        """Keep the logged units of a configuration."""
        name = queue.names[config]
        if name not in self._orders:
            raise unknown("configuration in the log", name, self._orders)
        queue.keep(config, self._orders[name])
        # Workers that have passed reopened units start over, and skip what is finished.
        self._at.clear()

    def choose(self, queue: Queue, outlook: Outlook, worker: int) -> tuple[int, int] | None:  # noqa: ARG002 - by the log
        """See :class:`Policy`."""
        sequence = self._sequences[queue.crew[worker]]
        while self._at[worker] < len(sequence):
            name, partition = sequence[self._at[worker]]
            config = queue.configs[name]
            if config not in queue.ended and not queue.visited[partition, config]:
                ahead = next(place for place in self._orders[name] if not queue.visited[place, config])
                return (config, partition) if queue.idle[config] and ahead == partition else None
            self._at[worker] += 1
        return None
