"""Pool of a session's long-lived workers: the first run starts them, all runs share them, the last run ends them."""

from __future__ import annotations

import itertools
import logging
import time
import uuid
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from cerebro_spark.errors import BusyError, RunError
from cerebro_spark.hopper._slots import slots_of
from udfs.driver import WorkerJobs, lease_slots
from udfs.hopper import POOL, AskRuns, Close, Noted, PooledRun, PoolWorker, Runs, ServiceEnded
from udfs.rpc import Endpoint, RefusedError, new_credentials

if TYPE_CHECKING:
    from cerebro_spark.hopper._backend import SparkBackend
    from cerebro_spark.hopper._coordinator import Coordinator
    from cerebro_spark.hopper._slots import Slots
    from udfs.rpc import Credentials, Request

__all__ = ["Member", "Pool"]

_LOG = logging.getLogger(__name__)

# How long a worker's request for runs waits at the driver; short of the caller's own patience.
_POLL_S = 10.0

# For the units in flight of a run that has ended, while other runs share the processes that they are in.
_PATIENCE_S = 30.0

# For processes to be gone that were told to end themselves.
_END_S = 30.0


@dataclass(slots=True)
class _Served:
    """Service of a worker for a run: its start, its state, and the number of losses."""

    start: int
    serving: bool = False
    losses: int = 0
    given_up: bool = False


@dataclass(eq=False, slots=True)
class _Run:
    coordinator: Coordinator
    name: str
    credentials: Credentials
    location: str = ""
    leaving: bool = False
    served: dict[str, _Served] = field(default_factory=dict)
    cpu_seconds: dict[str, float] = field(default_factory=dict)

    @property
    def serving(self) -> list[str]:
        return [name for name, each in self.served.items() if each.serving]


class Pool:
    """The long-lived workers of a session, and the runs that share them. It supervises their Spark jobs.

    Each worker's process asks here which runs it serves, and talks to each run's own endpoint about the rest, with
    credentials of that run. It trains for one at a time; :class:`udfs.hopper._process_turns.Turn` says for whom. The
    lock of ``slots`` is the pool's.

    Raises
    ------
    AddressError
        The backend's host is not of this machine.
    """

    def __init__(self, slots: Slots, backend: SparkBackend) -> None:
        self.closing = False
        self._stopping = False
        self.workers = backend.most_workers
        self._slots = slots
        self._changed = slots.changed
        self._made_of = _made_of(backend)
        self._restarts = backend.restarts
        self._runs: list[_Run] = []
        self._numbers = itertools.count(1)
        self._starts = itertools.count(1)
        self._names = [f"w{number}" for number in range(backend.most_workers)]
        self._needed = set(self._names[: backend.num_workers])
        self._processes: dict[str, str] = {}
        self._replaced: set[str] = set()
        self._seen: set[str] = set()
        self._given_up: set[str] = set()
        # By worker, losses of its process that runs which have left are to blame for.
        self._former: Counter[str] = Counter()
        # Whether a worker has finished a unit of any run.
        self._works = False
        self._credentials = new_credentials(encrypted=backend.encrypts)
        self._endpoint = Endpoint(backend.host, self._credentials, POOL, self.answer)
        pool = f"pool-{uuid.uuid4().hex[:12]}"
        self._jobs = WorkerJobs(
            backend.spark,
            self,
            [
                PoolWorker(
                    name,
                    pool,
                    self._endpoint.location,
                    self._credentials,
                    spare=name not in self._needed,
                    grace_s=backend.grace_s,
                )
                for name in self._names
            ],
            restarts=backend.restarts,
        )
        self._lease = lease_slots(backend.spark, self.workers)

    def check(self, backend: SparkBackend) -> None:
        """Check that a backend's workers are like these.

        Raises
        ------
        BusyError
            They are not; the message names what differs.
        """
        asked = _made_of(backend)
        differing = [name for name, value in self._made_of.items() if asked[name] != value]
        if differing:
            here, there = (", ".join(f"{name}={each[name]!r}" for name in differing) for each in (self._made_of, asked))
            raise BusyError(
                f"a run goes on in this Spark session, whose workers have {here}, and this backend asks for {there}: "
                "runs share workers, so give it an equal backend, or wait for the end of the other"
            )

    # For runs, with the lock held.

    def add(self, coordinator: Coordinator) -> _Run:
        """Add a run, which workers do not serve yet; start the workers with the first one."""
        name = f"run {next(self._numbers)}"
        run = _Run(coordinator, name, self._credentials.derived(name))
        first = not self._runs
        self._runs.append(run)
        self._share()
        if first:
            self._jobs.start()
        return run

    def announce(self, run: _Run, location: str) -> None:
        """Assign the workers to a run whose endpoint is listening."""
        run.location = location
        for name in self._names:
            run.served[name] = _Served(next(self._starts), given_up=name in self._given_up)
            if name in self._given_up:
                run.coordinator.give_up(name)
        self._changed.notify_all()

    # For runs, without the lock.

    def leave(self, coordinator: Coordinator) -> None:
        """End a run's part: wait for its units in flight, and close the pool if there is no other run."""
        with self._changed:
            run = next((run for run in self._runs if run.coordinator is coordinator), None)
            if run is not None:
                run.leaving = True
            alone = self._closes(without=run)
            self._share()
        if run is not None and not alone:
            self._end(run)
            with self._changed:
                self._former.update({name: self._uncharged(run, name) for name in self._names})
                self._runs.remove(run)
                alone = self._closes(without=run)
        if alone:
            self._close()

    def _closes(self, *, without: _Run | None) -> bool:
        """Return ``True`` for the one caller that closes the pool, because no run is left."""
        last = not self._stopping and all(run is without for run in self._runs)
        self._stopping |= last
        self.closing |= last
        self._changed.notify_all()
        return last

    def _end(self, run: _Run) -> None:
        """Wait until no process serves a run; end those that train a unit of it for too long."""
        with self._changed:
            if not self._changed.wait_for(lambda: not run.serving, _PATIENCE_S):
                _LOG.warning("workers %s still train for a run that is over, and are ended", ", ".join(run.serving))
                # The other runs lose these processes, through no fault of theirs or of the workers.
                self._former.update(run.serving)
        if run.serving:
            run.coordinator.abort()
        run.coordinator.settle(_END_S)

    def _close(self) -> None:
        try:
            self._jobs.stop()
            self._endpoint.shutdown()
        finally:
            with self._changed:
                self._slots.pool = None
                if self._lease is not None:
                    self._lease.release()
                self._changed.notify_all()

    def _share(self) -> None:
        going_on = [run for run in self._runs if not run.leaving]
        for run in going_on:
            run.coordinator.share(shared=len(going_on) > 1)

    # For the workers' processes.

    def answer(self, request: Request[Any]) -> Any:
        """Reply to a request of :data:`udfs.hopper.POOL`.

        Raises
        ------
        RefusedError
            There is no such worker.
        """
        assert isinstance(request, AskRuns | ServiceEnded)
        if request.worker not in self._names:
            raise RefusedError(f"a call of {request.worker!r}, which is no worker of this pool")
        return self._asked(request) if isinstance(request, AskRuns) else self._ended(request)

    def _asked(self, request: AskRuns) -> Runs | Close:
        name, until = request.worker, time.monotonic() + _POLL_S
        with self._changed:
            if request.process not in self._replaced and self._processes.get(name) != request.process:
                self._replace(name)
                self._processes[name] = request.process
                self._seen.add(name)
            while not self.closing and request.process not in self._replaced:
                runs = self._to_serve(name, request.after)
                remaining = until - time.monotonic()
                if runs or remaining <= 0:
                    for run in runs:
                        run.served[name].serving = True
                    return Runs(tuple(PooledRun(run.name, run.served[name].start, run.location) for run in runs))
                self._changed.wait(remaining)
            return Close()

    def _to_serve(self, name: str, after: int) -> list[_Run]:
        return [
            run
            for run in self._runs
            if run.location and not run.leaving and not run.served[name].given_up and run.served[name].start > after
        ]

    def _replace(self, name: str) -> None:
        """Handle a worker's process that is gone, or will be."""
        process = self._processes.pop(name, None)
        if process is not None:
            self._replaced.add(process)
        for run in self._runs:
            if name in run.served:
                run.served[name].serving = False
        self._changed.notify_all()

    def _ended(self, request: ServiceEnded) -> Noted:
        name = request.worker
        if request.interrupted:
            self._expect_loss(request)
            return Noted()
        with self._changed:
            run = next((run for run in self._runs if self._is_of(run, request)), None)
            if run is None:
                return Noted()
            served = run.served[name]
            served.serving = False
            if not request.error:
                run.cpu_seconds[name] = request.cpu_seconds
            self._changed.notify_all()
            if run.leaving or run.coordinator.wait(0.0):
                return Noted()
            # Taken for lost, or ended by an error: it is wanted again. Its process serves the others meanwhile.
            served.losses += 1
            served.given_up = not self._restarts or served.losses > self._restarts
            served.start = next(self._starts)
        error = request.error.strip()
        last = error.rpartition("\n")[2] or "it was told to stop"
        run.coordinator.lose(name, f"it served the run no longer: {last}")
        if served.given_up:
            run.coordinator.give_up(name)
            self._check_served(run, RunError(f"worker {name} cannot serve it: {error or last}"))
        return Noted()

    def _expect_loss(self, request: ServiceEnded) -> None:
        """Handle the notice of a process whose machine is about to end: no configuration is the reason."""
        name = request.worker
        with self._changed:
            if self._processes.get(name) != request.process:
                return
            # The worker is not the reason, either.
            self._former[name] += 1
            self._replace(name)
            runs = list(self._runs)
        for run in runs:
            run.coordinator.expect_loss(name)

    def _is_of(self, run: _Run, request: ServiceEnded) -> bool:
        served = run.served.get(request.worker)
        current = self._processes.get(request.worker) == request.process
        return current and served is not None and served.serving and served.start == request.start

    def _check_served(self, run: _Run, error: RunError) -> None:
        """Fail a run that no worker serves any more."""
        with self._changed:
            given_up = {name for name, served in run.served.items() if served.given_up}
        if self._needed <= given_up and not run.coordinator.alive:
            run.coordinator.fail(error)

    # For the workers' jobs.

    def lose(self, name: str, why: str) -> None:
        """Handle a worker's process that is gone; all runs lose it."""
        with self._changed:
            self._replace(name)
        for run in self._going_on():
            run.coordinator.lose(name, why)

    def give_up(self, name: str) -> None:
        """Handle a worker that will not come back."""
        with self._changed:
            self._given_up.add(name)
            for run in self._runs:
                if name in run.served:
                    run.served[name].given_up = True
        for run in self._going_on():
            run.coordinator.give_up(name)
            self._check_served(run, RunError(f"worker {name} was lost too often"))

    def fail(self, error: BaseException) -> None:
        """End all runs with an error."""
        with self._changed:
            # Runs that join now wait for the next pool.
            self.closing = True
            self._changed.notify_all()
        for run in self._going_on():
            run.coordinator.fail(error)

    def wait(self, timeout_s: float) -> bool:
        """Wait until the pool closes; gives whether it does."""
        with self._changed:
            return self._changed.wait_for(lambda: self.closing, timeout_s)

    def abort(self) -> None:
        """Terminate every process of the last run at its next heartbeat."""
        for run in self._going_on():
            run.coordinator.abort()

    def settle(self, timeout_s: float) -> bool:
        """Wait until the workers' processes are dead, or done with the last run."""
        return all(run.coordinator.settle(timeout_s) for run in self._going_on())

    def uncharged(self, name: str) -> int:
        """Count the losses of a worker's process that trials are blamed for, whosever they are, or may be yet."""
        return self._former[name] + sum(self._uncharged(run, name) for run in self._going_on())

    def _uncharged(self, run: _Run, name: str) -> int:
        # Where another run's units are finished, a run whose own are not has itself to blame.
        self._works |= any(each.coordinator.events for each in self._going_on())
        return run.coordinator.uncharged(name, works=self._works)

    def look_after(self) -> tuple[str, ...]:
        """Find workers that have fallen silent for some run, and what else has to be seen to."""
        runs = [run for run in self._going_on() if not run.leaving]
        return tuple(dict.fromkeys(name for run in runs for name in run.coordinator.look_after()))

    @property
    def alive(self) -> tuple[str, ...]:
        """Names of the workers whose processes have called."""
        with self._changed:
            return tuple(self._processes)

    @property
    def complete(self) -> bool:
        """True if every worker that is no spare has called once."""
        with self._changed:
            return self._needed <= self._seen

    def _going_on(self) -> list[_Run]:
        with self._changed:
            return list(self._runs)


class Member:
    """A run's part in the pool of its session."""

    def __init__(self, backend: SparkBackend, coordinator: Coordinator) -> None:
        self._backend = backend
        self._coordinator = coordinator
        self._slots = slots_of(backend.spark)
        self._pool: Pool | None = None
        self._run: _Run | None = None

    def join(self) -> Credentials:
        """Join the pool, or open one; before, wait for jobs whose slots it would take.

        Return the run's credentials for its endpoint. Raise BusyError if the pool's workers are not like the backend's.
        """
        slots, backend = self._slots, self._backend
        with slots.changed:
            slots.changed.wait_for(self._may_join)
            pool = self._opened() or Pool(slots, backend)
            slots.pool = self._pool = pool
            pool.check(backend)
            self._run = pool.add(self._coordinator)
            return self._run.credentials

    def announce(self, location: str) -> None:
        """Assign the workers to the run."""
        assert self._pool is not None  # it has joined
        assert self._run is not None
        with self._slots.changed:
            self._pool.announce(self._run, location)

    def leave(self) -> None:
        """End the run's part; with the last one the workers end."""
        # An interrupt may have come before the pool was noted here.
        pool = self._pool or self._opened()
        if pool is not None:
            pool.leave(self._coordinator)

    @property
    def cpu_seconds(self) -> dict[str, float]:
        """By worker, seconds of the CPU that its process took for the run."""
        return {} if self._run is None else dict(self._run.cpu_seconds)

    def _opened(self) -> Pool | None:
        pool = self._slots.pool
        assert pool is None or isinstance(pool, Pool)  # there are no others
        return pool

    def _may_join(self) -> bool:
        slots = self._slots
        if slots.pool is not None:
            return not slots.pool.closing
        return not slots.users or slots.spares(self._backend.most_workers)


def _made_of(backend: SparkBackend) -> dict[str, Any]:
    return {
        "num_workers": backend.num_workers,
        "max_workers": backend.most_workers,
        "threads": backend.threads_per_worker,
        "restarts": backend.restarts,
        "grace_s": backend.grace_s,
        "driver_host": backend.host,
        "device": backend.device,
        "encrypt": backend.encrypts,
    }
