"""The online scheduler: Algorithms 1 and 2 with replicas, faults and elasticity (Sections 3.5.3, 3.5.5 and 3.5.6)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from optimizer.errors import nearest

from ._errors import HopperError, unknown
from ._orders import Fixed, Replay
from ._outlook import Outlook
from ._policies import LongestRemaining, Randomized
from ._queue import Queue
from ._times import UnitTimes

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from ._policies import Policy
    from ._unit import Placement, Unit

__all__ = ["POLICIES", "Hopper"]

#: Names of the policies, the default first. ``"longest-remaining-elsewhere"`` and ``"longest-remaining-first"`` give an
#: idle worker the configuration with the most seconds left, after the unit in question or with it; ``"randomized"`` is
#: Algorithm 1; ``"fixed"`` makes visit orders a function of the seed alone.
POLICIES = ("longest-remaining-elsewhere", "longest-remaining-first", "randomized", "fixed")


class Hopper:
    """Decides which unit an idle worker trains next; one epoch, one instance.

    A state machine without a clock, to be driven by a coordinator and by :func:`simulate` alike: ask
    :meth:`next_unit` for every idle worker after each change, and report what became of every unit. It holds to
    completeness, isolation and exclusive access (Section 3.3) whatever order the calls come in. It is not
    thread-safe: hold a lock around it.

    With any policy but ``"fixed"`` and a replay no worker idles that could train, so that an epoch without faults on
    an open shop ends within ``p - 1`` of the longest units of the optimum.

    Parameters
    ----------
    configs : sequence of str
    availability : mapping of int to collection of str
        The workers that hold each partition, maybe none so far.
    policy : str
        One of :data:`POLICIES`.
    times : UnitTimes, optional
        What is known of unit times; by default nothing, and they are learned. To keep what was learned, give the next
        epoch the same.
    seed : int
        Of ties, of random choices, and of the orders of ``"fixed"``. There an order depends on the configuration's
        place too: to resume, add configurations in the order of before.

    Raises
    ------
    HopperError
        A name twice, no partition, a name where there should be a list of workers, a seed below 0, or a policy that
        does not exist.

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
            raise HopperError(f"policy={policy!r}{nearest(policy, POLICIES)}; there are {', '.join(POLICIES)}")
        if seed < 0:
            raise HopperError(f"seed={seed}: at least 0")
        for partition, holders in availability.items():
            if isinstance(holders, str):
                raise HopperError(f"partition {partition} is on {holders!r}: give a list of workers, or a set")
        if not availability:
            raise HopperError("availability is empty: there has to be a partition to train on")
        chosen: Policy
        if policy == "randomized":
            chosen = Randomized(seed)
        elif policy == "fixed":
            chosen = Fixed(seed, len(availability))
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
        placements: Iterable[Placement],
        availability: Mapping[int, Collection[str]] | None = None,
        *,
        times: UnitTimes | None = None,
        done: Mapping[str, Collection[int]] | None = None,
    ) -> Hopper:
        """Follow a log exactly: the same units on the same workers, in the order of each worker and configuration.

        A worker waits for its next configuration, however long that takes. Units that the log does not have are not
        run.

        Parameters
        ----------
        placements : iterable of Placement
            The units that finished, of a :class:`Schedule` for example. Times count for their order alone.
        availability : mapping of int to collection of str, optional
            Where partitions are now. By default the workers of the log are there, with what they trained on. One that
            is not has to :meth:`join` before its units are given out.
        times : UnitTimes, optional
            To learn from what is replayed.
        done : mapping of str to collection of int, optional
            Partitions that configurations have finished already.

        Returns
        -------
        Hopper

        Raises
        ------
        HopperError
            The log is empty or has a partition that ``availability`` has not, or ``done`` has what the log has not.
        ScheduleError
            The log has a unit twice.
        """
        log = tuple(placements)
        if not log:
            raise HopperError("the log is empty: there is nothing to replay")
        logged: dict[int, set[str]] = {}
        for one in log:
            logged.setdefault(one.unit.partition, set()).add(one.worker)
        held = logged if availability is None else availability
        for partition in logged:
            if partition not in held:
                raise unknown("partition", partition, held)
        configs = tuple(dict.fromkeys(one.unit.config for one in log))
        finished = done or {}
        for name in finished:
            if name not in configs:
                raise unknown("configuration in the log", name, configs)
        hopper = cls((), held, times=times)
        hopper._policy = Replay(hopper._queue, log)
        for config in configs:
            hopper.add(config, finished.get(config, ()))
        return hopper

    def next_unit(self, worker: str) -> Unit | None:
        """A unit for an idle worker; from now on worker and configuration are busy.

        Parameters
        ----------
        worker : str

        Returns
        -------
        Unit or None
            ``None``: nothing that it could train now. Ask again after the next change.

        Raises
        ------
        HopperError
            The worker is unknown, lost or busy.
        """
        place = self._live(worker)
        if place in self._queue.busy:
            raise HopperError(f"worker {worker!r} is busy with {self._queue.busy[place]}; finish or fail that first")
        chosen = self._policy.choose(self._queue, self._outlook, place)
        return None if chosen is None else self._queue.take(*chosen, place)

    def finish(self, unit: Unit, seconds: float) -> None:
        """A unit has ended well (Algorithm 2); its time is learned from.

        Parameters
        ----------
        unit : Unit
        seconds : float
            What it took.

        Raises
        ------
        HopperError
            The unit is not in flight, for example because its worker was lost in the meantime; or it took no possible
            time.
        """
        if unit in self._queue.flight:
            self._times.observe(unit, self._queue.crew[self._queue.flight[unit]], seconds)
        self._queue.settle(unit, finished=True)

    def fail(self, unit: Unit) -> None:
        """A unit has come to nothing: it goes back from Q' to Q, and its worker is idle.

        Parameters
        ----------
        unit : Unit

        Raises
        ------
        HopperError
            The unit is not in flight.
        """
        self._queue.settle(unit, finished=False)

    def stop(self, config: str) -> None:
        """A configuration has ended before its epoch: nothing more of it is given out.

        A unit in flight still has to be finished or failed, which then only frees its worker.

        Parameters
        ----------
        config : str

        Raises
        ------
        HopperError
            There is no such configuration.
        """
        self._queue.end(self._queue.config(config))

    def add(self, config: str, done: Collection[int] = ()) -> None:
        """A configuration joins.

        Parameters
        ----------
        config : str
        done : collection of int
            Partitions that it has visited in this epoch already.

        Raises
        ------
        HopperError
            There is one of that name, stopped or not; there is no such partition; or it is not in the log of a replay.
        """
        self._policy.prepare(self._queue, self._queue.add(config, done))

    def reopen(self, config: str, partition: int) -> None:
        """A unit that was finished has to be done again: the state after it was lost before it was saved.

        Reopen all units after the state that is left, before the next is given out; ``"fixed"`` and a replay then
        visit them in the order of before.

        Parameters
        ----------
        config : str
        partition : int

        Raises
        ------
        HopperError
            The configuration has not finished that partition, or one of the two does not exist.
        """
        place = self._queue.config(config)
        self._queue.reopen(place, partition)
        self._policy.prepare(self._queue, place)

    def lose(self, worker: str) -> tuple[Unit, ...]:
        """A worker is gone; what it was training goes back to Q for whoever else holds that partition.

        Parameters
        ----------
        worker : str

        Returns
        -------
        tuple of Unit
            The unit that it was training, if any. Its end must not be reported any more.

        Raises
        ------
        HopperError
            There never was such a worker.
        """
        unit = self._queue.lose(self._queue.worker(worker))
        return () if unit is None else (unit,)

    def join(self, worker: str, partitions: Collection[int]) -> None:
        """A worker comes, or comes back.

        Parameters
        ----------
        worker : str
        partitions : collection of int
            What it holds, of the partitions that there are; what it held before does not count.

        Raises
        ------
        HopperError
            It is here already and training, or there is no such partition.
        """
        self._queue.join(worker, partitions)

    def hold(self, worker: str, partitions: Collection[int]) -> None:
        """A live worker, idle or not, gets partitions beside those that it has.

        Parameters
        ----------
        worker : str
        partitions : collection of int

        Raises
        ------
        HopperError
            The worker is unknown or lost, or there is no such partition.
        """
        self._queue.hold(self._live(worker), partitions)

    @property
    def times(self) -> UnitTimes:
        """What is known of unit times by now."""
        return self._times

    @property
    def idle_workers(self) -> tuple[str, ...]:
        """Live workers without a unit, the one with the most work left on its partitions first."""
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
        """How many units are in Q: neither finished, nor in flight, nor dropped."""
        return int(np.count_nonzero(self._queue.pending))

    @property
    def done(self) -> bool:
        """Whether Q and Q' are both empty."""
        return not self._queue.flight and not self._queue.pending.any()

    @property
    def stranded(self) -> frozenset[int]:
        """Partitions with units in Q that no live worker holds: the epoch waits for one to join."""
        alone = self._queue.pending.any(axis=1) & ~self._queue.holds.any(axis=0)
        return frozenset(self._queue.numbers[place] for place in np.flatnonzero(alone))

    def visited(self, config: str) -> frozenset[int]:
        """The partitions that a configuration has finished in this epoch; what :meth:`add` takes as ``done``.

        Parameters
        ----------
        config : str

        Returns
        -------
        frozenset of int

        Raises
        ------
        HopperError
            There is no such configuration.
        """
        found = self._queue.visited[:, self._queue.config(config)]
        return frozenset(self._queue.numbers[place] for place in np.flatnonzero(found))

    def _live(self, worker: str) -> int:
        place = self._queue.worker(worker)
        if place not in self._queue.live:
            raise HopperError(f"worker {worker!r} was lost; let it join first")
        return place
