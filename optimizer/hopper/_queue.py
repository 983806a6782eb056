"""Pending units and units in flight: the sets Q and Q' of Section 3.5.6, as arrays."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np

from optimizer.hopper._errors import HopperError, unknown
from optimizer.hopper._unit import Unit

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from numpy.typing import NDArray

__all__ = ["Queue"]

_ROOM = 16


class Queue:
    """Pending and finished units as tables of booleans: a decision among 100,000 units takes a few array operations.

    Configurations, partitions and workers go by their places, in the order in which they were added. A detached worker
    keeps its place. ``flight`` is Q' with the place of each unit's worker, ``busy`` the same by worker. ``held`` are
    the partitions of each worker, none for a detached one; ``holds`` is the same as a table of workers x partitions.
    ``epochs`` are from 0; ``orders`` names the configuration in whose order each visits its partitions. ``changes``
    counts changes of configurations or workers.
    """

    def __init__(self, availability: Mapping[int, Collection[str]]) -> None:
        self.partitions = {partition: place for place, partition in enumerate(sorted(availability))}
        self.numbers = tuple(self.partitions)
        self.configs: dict[str, int] = {}
        self.names: list[str] = []
        self.workers: dict[str, int] = {}
        self.crew: list[str] = []
        self.held: list[NDArray[np.intp]] = []
        self.holds = np.zeros((0, len(self.partitions)), dtype=bool)
        self.flight: dict[Unit, int] = {}
        self.busy: dict[int, Unit] = {}
        self.live: set[int] = set()
        self.ended: set[int] = set()
        self.epochs: list[int] = []
        self.orders: list[int] = []
        self.changes = 0
        self._tables = np.zeros((2, len(self.partitions), _ROOM), dtype=bool)
        self._idle = np.zeros(_ROOM, dtype=bool)
        self._progress = np.zeros(_ROOM, dtype=np.intp)
        self._ahead = np.zeros(_ROOM, dtype=np.intp)
        self._along = np.zeros(_ROOM, dtype=np.intp)
        self._resident = np.full(_ROOM, -1, dtype=np.intp)
        self._inherited: list[int] = []
        for name in sorted({name for holders in availability.values() for name in holders}):
            self.join(name, [partition for partition, holders in availability.items() if name in holders])

    @property
    def pending(self) -> NDArray[np.bool_]:
        """Q: booleans, partitions x configurations."""
        return self._tables[0, :, : len(self.names)]

    @property
    def visited(self) -> NDArray[np.bool_]:
        """Finished units: booleans, partitions x configurations."""
        return self._tables[1, :, : len(self.names)]

    @property
    def idle(self) -> NDArray[np.bool_]:
        """Configurations that may be trained now: not in flight, not ended."""
        return self._idle[: len(self.names)]

    @property
    def progress(self) -> NDArray[np.intp]:
        """Number of partitions that each configuration has finished."""
        return self._progress[: len(self.names)]

    @property
    def ahead(self) -> NDArray[np.intp]:
        """Epochs that each configuration has to train after the one that it is in."""
        return self._ahead[: len(self.names)]

    @property
    def along(self) -> NDArray[np.intp]:
        """Epochs along the lineage of each configuration before the one that it is in."""
        return self._along[: len(self.names)]

    @property
    def resident(self) -> NDArray[np.intp]:
        """The worker that finished each configuration's last unit, and so has its state; -1 before the first one."""
        return self._resident[: len(self.names)]

    def config(self, name: str) -> int:
        """Look up the place of a configuration."""
        if name not in self.configs:
            raise unknown("configuration", name, self.configs)
        return self.configs[name]

    def worker(self, name: str) -> int:
        """Look up the place of a worker, attached or not."""
        if name not in self.workers:
            raise unknown("worker", name, self.workers)
        return self.workers[name]

    def add(self, name: str, done: Collection[int], *, epoch: int = 0, ahead: int = 0, inherited: int = 0) -> int:
        """Put the units of a new configuration into Q, and return its place."""
        if name in self.configs:
            raise HopperError(f"configuration {name!r} exists already; give each a different name")
        finished = self._partitions(done)
        place = self.configs[name] = len(self.names)
        self.names.append(name)
        self.epochs.append(epoch)
        self.orders.append(place)
        self._inherited.append(inherited)
        if place == len(self._idle):
            self._tables = np.pad(self._tables, ((0, 0), (0, 0), (0, place)))
            self._idle, self._progress, self._ahead, self._along = (
                np.pad(array, (0, place)) for array in (self._idle, self._progress, self._ahead, self._along)
            )
            self._resident = np.pad(self._resident, (0, place), constant_values=-1)
        self._idle[place] = True
        self._enter(place, finished, epoch, ahead)
        self.changes += 1
        return place

    def enter(self, config: int, done: Collection[int], *, epoch: int, ahead: int, order: int) -> None:
        """Put the units of another epoch of a configuration into Q, in place of those of the present one."""
        if config in {self.configs[unit.config] for unit in self.flight}:
            raise HopperError(f"{self.names[config]} is in flight: finish its unit, fail it or lose its worker first")
        if config in self.ended:
            raise HopperError(f"{self.names[config]} was stopped: revive it before its next epoch")
        finished = self._partitions(done)
        self.orders[config] = order
        self._enter(config, finished, epoch, ahead)

    def _enter(self, config: int, finished: list[int], epoch: int, ahead: int) -> None:
        self.epochs[config] = epoch
        self._tables[0, :, config] = True
        self._tables[1, :, config] = False
        self._tables[0, finished, config] = False
        self._tables[1, finished, config] = True
        self._progress[config] = len(finished)
        self._ahead[config] = ahead
        self._along[config] = self._inherited[config] + epoch

    def keep(self, config: int, partitions: Collection[int]) -> None:
        """Drop the units of a configuration from Q, except those of some partitions, given by their places."""
        kept = np.zeros(len(self.partitions), dtype=bool)
        kept[list(partitions)] = True
        self._tables[0, :, config] &= kept

    def end(self, config: int) -> None:
        """Drop the pending units of a configuration; a unit in flight stays in flight."""
        self._tables[0, :, config] = False
        self._idle[config] = False
        self.ended.add(config)

    def revive(self, config: int) -> None:
        """Let a configuration that has ended enter another epoch."""
        if config in self.ended:
            self.ended.remove(config)
            self._idle[config] = config not in {self.configs[unit.config] for unit in self.flight}

    @contextmanager
    def without(self, configs: Collection[str]) -> Iterator[None]:
        """Hide some configurations from the policies for a moment."""
        hidden = [place for place in map(self.config, configs) if self._idle[place]]
        self._idle[hidden] = False
        try:
            yield
        finally:
            self._idle[hidden] = True

    def take(self, config: int, partition: int, worker: int) -> Unit:
        """Move a unit from Q to Q'."""
        unit = Unit(self.names[config], self.numbers[partition])
        self._tables[0, partition, config] = False
        self._idle[config] = False
        self.flight[unit] = worker
        self.busy[worker] = unit
        return unit

    def settle(self, unit: Unit, *, finished: bool) -> int:
        """Remove a unit from Q', back to Q unless it has finished; return its worker's place."""
        if unit not in self.flight:
            running = ", ".join(f"({running_unit})" for running_unit in self.flight) or "nothing"
            raise HopperError(f"({unit}) is not in flight: it was never given out, or has ended; in flight: {running}")
        worker = self.flight.pop(unit)
        del self.busy[worker]
        config, partition = self.configs[unit.config], self.partitions[unit.partition]
        if finished:
            self._tables[1, partition, config] = True
            self._progress[config] += 1
            self._resident[config] = worker
        if config not in self.ended:
            self._idle[config] = True
            self._tables[0, partition, config] = not finished
        return worker

    def join(self, name: str, partitions: Collection[int]) -> None:
        """Attach a worker, for the first time or again."""
        places = self._partitions(partitions)
        place = self.workers.get(name)
        if place is None:
            place = self.workers[name] = len(self.crew)
            self.crew.append(name)
            self.held.append(np.zeros(0, dtype=np.intp))
            self.holds = np.pad(self.holds, ((0, 1), (0, 0)))
        elif place in self.busy:
            raise HopperError(f"worker {name!r} joins while ({self.busy[place]}) is in flight on it; lose it first")
        self._hold(place, places)
        self.live.add(place)

    def hold(self, worker: int, partitions: Collection[int]) -> None:
        """Set the partitions of a worker."""
        self._hold(worker, self._partitions(partitions))

    def _hold(self, worker: int, places: list[int]) -> None:
        self.holds[worker] = False
        self.holds[worker, places] = True
        self.held[worker] = np.array(places, dtype=np.intp)
        self.changes += 1

    def lose(self, worker: int) -> Unit | None:
        """Detach a worker; its unit moves back to Q and is returned."""
        unit = self.busy.get(worker)
        if unit is not None:
            self.settle(unit, finished=False)
        self.held[worker] = np.zeros(0, dtype=np.intp)
        self.holds[worker] = False
        self.live.discard(worker)
        self.changes += 1
        return unit

    def _partitions(self, numbers: Collection[int]) -> list[int]:
        for number in numbers:
            if number not in self.partitions:
                raise unknown("partition", number, self.partitions)
        return sorted({self.partitions[number] for number in numbers})
