"""Online scheduler: Algorithms 1 and 2 with replicas, faults and elasticity (Sections 3.5.3, 3.5.5 and 3.5.6)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from optimizer.arguments import choice_error
from optimizer.hopper._errors import HopperError, unknown
from optimizer.hopper._orders import Fixed, Replay
from optimizer.hopper._policies import LeastFarAlong, LongestRemaining, Randomized
from optimizer.hopper._queue import Queue
from optimizer.hopper._remaining_work import Outlook
from optimizer.hopper._times import UnitTimes

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from optimizer.hopper._policies import Policy
    from optimizer.hopper._unit import Placement, Unit

__all__ = ["POLICIES", "Hopper"]

#: Names of the policies, the default first. ``"least-far-along"`` gives an idle worker a configuration in the earliest
#: epoch of its lineage, of those the one with the most seconds remaining in its epoch, without the unit in question.
#: ``"longest-remaining-elsewhere"`` and ``"longest-remaining-first"`` give it the one with the most seconds remaining
#: in all epochs that it has to train, without the unit in question or with it. ``"randomized"`` is Algorithm 1;
#: ``"fixed"`` makes visit orders a function of the seed alone.
POLICIES = ("least-far-along", "longest-remaining-elsewhere", "longest-remaining-first", "randomized", "fixed")


class Hopper:
    """Scheduler that decides which unit an idle worker trains next.

    A state machine without a clock, driven by a coordinator and by :func:`simulate` alike: call :meth:`next_unit` for
    every idle worker after each change, and report the end of every unit. Completeness, isolation and exclusive access
    (Section 3.3) hold whatever the order of the calls. It is not thread-safe: hold a lock around it.

    Each configuration is in an epoch of its own. Once it has visited every partition, :meth:`enter` begins the next
    one, at any time: whether the epochs of all begin together is the caller's choice.

    With two configurations or more, and any policy but ``"fixed"`` and a replay, no worker that could train is idle. So
    an epoch without faults on an open shop takes at most ``p - 1`` of the longest units more than the optimum.

    Parameters
    ----------
    configs : sequence of str
        Names of the configurations.
    availability : mapping of int to collection of str
        The workers that hold each partition; there may be none yet.
    policy : str
        One of :data:`POLICIES`.
    times : UnitTimes, optional
        Known unit times; by default they are learned. Give the next epoch the same object to keep what was learned.
    seed : int
        Seed of ties, of random choices, and of the orders of ``"fixed"``. Those depend on the configuration's place and
        on its epoch too: to resume, add configurations in their former order.

    Raises
    ------
    HopperError
        A repeated name, no partition, a name instead of a list of workers, a seed below 0, or an unknown policy.

    Examples
    --------
    >>> hopper = Hopper(["a", "b"], {0: ["w0"], 1: ["w1"]}, policy="fixed", seed=3)
    >>> while not hopper.done:
    ...     for worker in hopper.idle_workers:
    ...         unit = hopper.next_unit(worker)
    ...         print(f"{worker}: {unit}")
    ...     for unit in hopper.in_flight:
    ...         hopper.finish(unit, seconds=1.0)
    w0: b on partition 0
    w1: a on partition 1
    w0: a on partition 0
    w1: b on partition 1
    """

    def __init__(
        self,
        configs: Sequence[str],
        availability: Mapping[int, Collection[str]],
        *,
        policy: str = POLICIES[0],
        times: UnitTimes | None = None,
        seed: int = 0,
    ) -> None:
        if policy not in POLICIES:
            raise HopperError(choice_error("policy", policy, POLICIES))
        if seed < 0:
            raise HopperError(f"seed must be at least 0, got {seed}")
        for partition, holders in availability.items():
            if isinstance(holders, str):
                raise HopperError(f"partition {partition} is on {holders!r}: give a list of workers, or a set")
        if not availability:
            raise HopperError("availability is empty: give at least one partition to train on")
        chosen: Policy
        if policy == "randomized":
            chosen = Randomized(seed)
        elif policy == "fixed":
            chosen = Fixed(seed, len(availability))
        elif policy == "least-far-along":
            chosen = LeastFarAlong(seed, len(availability))
        else:
            chosen = LongestRemaining(seed, len(availability), elsewhere=policy == "longest-remaining-elsewhere")
        self._queue = Queue(availability)
        self._policy: Policy = chosen
        self._times = UnitTimes() if times is None else times
        self._outlook = Outlook(self._queue, self._times)
        for config in configs:
            self.add(config)

    @classmethod
    def replay(
        cls,
        placements: Mapping[int, Iterable[Placement]],
        availability: Mapping[int, Collection[str]] | None = None,
        *,
        times: UnitTimes | None = None,
        configs: Sequence[str] | None = None,
    ) -> Hopper:
        """Repeat a log: the same units on the same workers, in the order of each worker and configuration.

        A worker waits for its next configuration, however long that takes, also for one that is added later. Units that
        are not in the log do not run. Those of a worker that is lost go to others that hold the partition.
        ``placements`` are finished units by epoch; only the order of their times counts. ``availability`` has the
        workers that hold each partition now, by default those of the log with the partitions that they trained on;
        another worker of the log gets units once it has called :meth:`join`. ``configs`` begin now, by default all of
        the log; :meth:`add` adds others. Raise ScheduleError if the log has a unit twice in an epoch, and HopperError
        if it is empty or has a partition without a worker.
        """
        log = {epoch: tuple(of_epoch) for epoch, of_epoch in sorted(placements.items())}
        flat = tuple(placement for of_epoch in log.values() for placement in of_epoch)
        if not flat and availability is None:
            raise HopperError("the log is empty: there is nothing to replay")
        logged: dict[int, set[str]] = {}
        for placement in flat:
            logged.setdefault(placement.unit.partition, set()).add(placement.worker)
        holders = logged if availability is None else availability
        for partition in logged:
            if partition not in holders:
                raise unknown("partition", partition, holders)
        hopper = cls((), holders, times=times)
        hopper._policy = Replay(hopper._queue, log)
        for config in dict.fromkeys(placement.unit.config for placement in flat) if configs is None else configs:
            hopper.add(config)
        return hopper

    def next_unit(self, worker: str, *, without: Collection[str] = ()) -> Unit | None:
        """Assign a unit to an idle worker; worker and configuration are then busy.

        It must not get a configuration of ``without``. Return ``None`` where it can train nothing now: ask again after
        the next change.

        Raises
        ------
        HopperError
            The worker is unknown, lost or busy; or a configuration of ``without`` is unknown.
        """
        place = self._live(worker)
        if place in self._queue.busy:
            raise HopperError(f"worker {worker!r} is busy with {self._queue.busy[place]}; report its end first")
        with self._queue.without(without):
            chosen = self._policy.choose(self._queue, self._outlook, place)
        return None if chosen is None else self._queue.take(*chosen, place)

    def finish(self, unit: Unit, seconds: float) -> None:
        """Mark a unit as finished and learn from its time (Algorithm 2).

        Raise HopperError if the unit is not in flight, for example because its worker was lost in the meantime.
        """
        if unit in self._queue.flight:
            self._times.observe(unit, self._queue.crew[self._queue.flight[unit]], seconds)
        self._queue.settle(unit, finished=True)

    def fail(self, unit: Unit) -> None:
        """Return a failed unit from Q' to Q; its worker is idle.

        Raises
        ------
        HopperError
            The unit is not in flight.
        """
        self._queue.settle(unit, finished=False)

    def stop(self, config: str) -> None:
        """End a configuration in the middle of its epoch: no more of its units are given out.

        Finish or fail its unit in flight as well, to free the worker.

        Raises
        ------
        HopperError
            There is no such configuration.
        """
        self._queue.end(self._queue.config(config))

    def revive(self, config: str) -> None:
        """Let a configuration :meth:`enter` another epoch if it was stopped; enter it before the next unit is assigned.

        Raises
        ------
        HopperError
            There is no such configuration.
        """
        self._queue.revive(self._queue.config(config))

    def add(
        self, config: str, done: Collection[int] = (), *, epoch: int = 0, ahead: int = 0, inherited: int = 0
    ) -> None:
        """Add a configuration.

        It has visited the partitions ``done`` of ``epoch`` already, and has to train ``ahead`` epochs after that one. A
        clone has ``inherited`` epochs along its lineage before its own first one. Policies look at both. A name stays
        taken, even if stopped.

        Raises
        ------
        HopperError
            The name is taken, even if stopped; or an unknown partition.
        """
        self._policy.prepare(self._queue, self._queue.add(config, done, epoch=epoch, ahead=ahead, inherited=inherited))

    def enter(
        self, config: str, epoch: int, done: Collection[int] = (), *, ahead: int = 0, like: str | None = None
    ) -> None:
        """Move a configuration to another epoch: the next one, or one to do again because its state was lost.

        ``"fixed"`` and a replay visit what is done again in its former order. ``done`` partitions have been visited
        already; see :meth:`add` for ``ahead``. With ``"fixed"``, ``like`` is the configuration whose order it visits
        this epoch's partitions in: configurations that were trained as one, and are not any more, keep the order that
        they began with. Raise HopperError if the configuration is in flight, or was stopped and not revived.
        """
        place = self._queue.config(config)
        order = place if like is None else self._queue.config(like)
        self._queue.enter(place, done, epoch=epoch, ahead=ahead, order=order)
        self._policy.prepare(self._queue, place)

    def lose(self, worker: str) -> tuple[Unit, ...]:
        """Detach a worker; its unit returns to Q for another holder of the partition.

        Return the unit that it was training, if any. Do not report its end.

        Raises
        ------
        HopperError
            An unknown worker.
        """
        unit = self._queue.lose(self._queue.worker(worker))
        return () if unit is None else (unit,)

    def join(self, worker: str, partitions: Collection[int]) -> None:
        """Attach a worker, for the first time or again.

        It holds ``partitions`` now; those that it held before do not count.

        Raises
        ------
        HopperError
            It is attached and training, or an unknown partition.
        """
        self._queue.join(worker, partitions)

    def hold(self, worker: str, partitions: Collection[int]) -> None:
        """Set the partitions of a live worker, idle or not; a unit in flight continues.

        Raises
        ------
        HopperError
            The worker is unknown or lost, or the partition is unknown.
        """
        self._queue.hold(self._live(worker), partitions)

    @property
    def times(self) -> UnitTimes:
        """The unit times, as far as they are known or learned."""
        return self._times

    @property
    def idle_workers(self) -> tuple[str, ...]:
        """Live workers without a unit, the one with the most work on its partitions first."""
        queue = self._queue
        idle = sorted(queue.live - queue.busy.keys())
        if len(idle) > 1:
            pressure = self._outlook.pressure()
            idle.sort(key=lambda worker: -float(pressure[queue.held[worker]].sum()))
        return tuple(queue.crew[worker] for worker in idle)

    @property
    def in_flight(self) -> dict[Unit, str]:
        """Q': the units being trained, and their workers."""
        return {unit: self._queue.crew[worker] for unit, worker in self._queue.flight.items()}

    @property
    def remaining(self) -> int:
        """Number of units in Q: neither finished, nor in flight, nor dropped."""
        return int(np.count_nonzero(self._queue.pending))

    @property
    def done(self) -> bool:
        """True if Q and Q' are both empty: every configuration has finished its epoch, or was stopped."""
        return not self._queue.flight and not self._queue.pending.any()

    @property
    def stranded(self) -> frozenset[int]:
        """Partitions with units in Q that no live worker holds: they wait until a holder attaches."""
        alone = self._queue.pending.any(axis=1) & ~self._queue.holds.any(axis=0)
        return frozenset(self._queue.numbers[place] for place in np.flatnonzero(alone))

    def visited(self, config: str) -> frozenset[int]:
        """Return the partitions that a configuration has finished in its epoch; what :meth:`add` takes as ``done``.

        Raises
        ------
        HopperError
            There is no such configuration.
        """
        finished = self._queue.visited[:, self._queue.config(config)]
        return frozenset(self._queue.numbers[place] for place in np.flatnonzero(finished))

    def _live(self, worker: str) -> int:
        place = self._queue.worker(worker)
        if place not in self._queue.live:
            raise HopperError(f"worker {worker!r} was lost; call join() first")
        return place
