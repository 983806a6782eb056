"""Simulation of a search: a procedure's decisions, carried out in simulated time."""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from optimizer.errors import InvalidArgumentError

from ._arguments import one_of, real, whole
from ._errors import ProcedureError
from ._log import Exchange
from ._results import Ended, EpochResult, OutOfTime

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ._ledger import Ledger
    from ._procedure import Procedure
    from ._results import Result
    from ._trial import Trial

__all__ = ["Simulation", "Span", "Visit", "simulate"]


@dataclass(frozen=True, slots=True)
class Visit:
    """Time of a configuration on a worker.

    Parameters
    ----------
    trial_id : str
    epoch : int
        Own epoch of the trial, counted from 1.
    partition : int or None
        None for the whole epoch, with ``parallelism="tasks"``.
    worker : int
    start, end : float
        Seconds.
    """

    trial_id: str
    epoch: int
    partition: int | None
    worker: int
    start: float
    end: float


@dataclass(frozen=True, slots=True)
class Span:
    """From the first to the last second that a configuration trained.

    Parameters
    ----------
    trial_id : str
    start, end : float
        Seconds.
    epochs : int
        Own epochs that it finished.
    """

    trial_id: str
    start: float
    end: float
    epochs: int


@dataclass(frozen=True, slots=True, eq=False)
class Simulation:
    """Course of a simulated search.

    Parameters
    ----------
    workers : int
    makespan : float
        Seconds from the start to the end of the search.
    visits : tuple of Visit
        In the order of their starts.
    log : tuple of Exchange
        All calls of the procedure.
    ledger : Ledger
        Of the procedure, at the end.
    """

    workers: int
    makespan: float
    visits: tuple[Visit, ...]
    log: tuple[Exchange, ...]
    ledger: Ledger

    @property
    def idle(self) -> float:
        """Share of the workers' time in which they trained nothing."""
        if not self.makespan:
            return 0.0
        busy = sum(visit.end - visit.start for visit in self.visits)
        return 1 - busy / (self.workers * self.makespan)

    @property
    def spans(self) -> tuple[Span, ...]:
        """Spans of the configurations that trained, in the order of their starts by the procedure."""
        times: dict[str, tuple[float, float]] = {}
        for visit in self.visits:
            start, end = times.get(visit.trial_id, (visit.start, visit.end))
            times[visit.trial_id] = (min(start, visit.start), max(end, visit.end))
        return tuple(
            Span(trial.trial_id, *times[trial.trial_id], trial.finished)
            for trial in self.ledger
            if trial.trial_id in times
        )


def simulate(
    procedure: Procedure,
    losses: Callable[[Trial, int], float | Mapping[str, float] | None],
    seconds: float | Callable[[Trial], float],
    workers: int,
    *,
    partitions: int | None = None,
    rounds: str = "rolling",
    parallelism: str = "hopping",
    max_seconds: float | None = None,
) -> Simulation:
    """Run a procedure to its end in simulated time, without training anything.

    Parameters
    ----------
    procedure : Procedure
        New; it is used up.
    losses : callable
        ``losses(trial, epoch)`` is the metric that decides, or all metrics, after an own epoch of the trial; None lets
        the trial fail in that epoch.
    seconds : float or callable
        Seconds of a unit, a configuration over one partition; or a function of the trial.
    workers : int
    partitions : int, optional
        Partition ``q`` lies on worker ``q % workers``. By default one per worker.
    rounds : {"rolling", "together"}
        Whether a configuration begins its next epoch at once (default), or when all have finished theirs, as in the
        seeds.
    parallelism : {"hopping", "tasks"}
        With ``"tasks"`` a worker has all partitions and trains the epochs that a configuration was granted one after
        the other: task parallelism, for comparison.
    max_seconds : float, optional
        The procedure is told then that time is over.

    Returns
    -------
    Simulation

    Raises
    ------
    InvalidArgumentError
        A value that is not allowed.
    ProcedureError
        The procedure has been asked before, or waits for nothing and is not done.

    Examples
    --------
    Three configurations hop over two workers; an epoch is two units:

    >>> from optimizer.procedures import Listed
    >>> search = Listed([{"lr": 0.1}, {"lr": 0.2}, {"lr": 0.3}], epochs=2)
    >>> course = simulate(search, lambda trial, epoch: trial.params["lr"] / epoch, 1.0, 2)
    >>> course.makespan, course.idle, course.ledger.best.trial_id
    (6.0, 0.0, 'c000')
    """
    if len(procedure.ledger) or procedure.done:
        raise ProcedureError("the procedure has been asked before: simulate a new one")
    workers = whole("workers", workers)
    count = workers if partitions is None else whole("partitions", partitions)
    limit = None if max_seconds is None else real("max_seconds", max_seconds, 0, above=True)
    tasks = one_of("parallelism", parallelism, ("hopping", "tasks")) == "tasks"
    together = one_of("rounds", rounds, ("rolling", "together")) == "together"
    if tasks and together:
        raise InvalidArgumentError('rounds="together" with parallelism="tasks": tasks have no common epoch; "rolling"')
    floor = _Tasks(workers, count) if tasks else _Hops(workers, count, together=together)
    return _Course(procedure, losses, seconds, workers, floor).run(limit)


@dataclass(slots=True, eq=False)
class _Job:
    """A configuration that has epochs to train."""

    trial: Trial
    seconds: float
    epoch: int
    open: list[int]
    busy: bool = False
    worker: int | None = None


class _Floor:
    """The workers, and which job each of them takes next."""

    def __init__(self, workers: int, partitions: int) -> None:
        self.partitions = partitions
        self.free = set(range(workers))
        self.jobs: dict[str, _Job] = {}

    def admit(self, job: _Job) -> None:
        self.jobs[job.trial.trial_id] = job

    def has(self, trial_id: str) -> bool:
        return trial_id in self.jobs

    def take(self, worker: int) -> tuple[_Job, int | None, float] | None:
        raise NotImplementedError

    def finish(self, job: _Job, partition: int | None) -> bool:
        """Take in a finished unit, and say whether its epoch is finished."""
        raise NotImplementedError

    def tell(self, results: list[Result]) -> list[Result]:
        """Return the results that the procedure is told now."""
        return results

    def idle(self) -> int:
        """Count the slots that could train another configuration."""
        return len(self.free)

    def open_round(self) -> bool:
        """Let configurations that waited for the round begin it."""
        return False


class _Hops(_Floor):
    """Jobs hop: each partition of an epoch is a unit on its worker.

    The job that is least far along its lineage comes first, whatever it was granted; of equal ones the slower one. So a
    bracket's first rung does not wait for another one's long epochs, after which its last one would train alone.
    """

    def __init__(self, workers: int, partitions: int, *, together: bool) -> None:
        super().__init__(workers, partitions)
        self._held = [set(range(worker, partitions, workers)) for worker in range(workers)]
        self._together = together
        self._told: list[Result] = []
        self._waiting: list[_Job] = []

    def admit(self, job: _Job) -> None:
        if self._together:
            self._waiting.append(job)
        else:
            super().admit(job)

    def has(self, trial_id: str) -> bool:
        return super().has(trial_id) or any(job.trial.trial_id == trial_id for job in self._waiting)

    def take(self, worker: int) -> tuple[_Job, int | None, float] | None:
        best, partition = None, None
        first: tuple[int, float, int] | None = None
        for job in self.jobs.values():
            if job.busy:
                continue
            here = next((number for number in job.open if number in self._held[worker]), None)
            if here is None:
                continue
            behind = len(job.open) - self.partitions * len(job.trial.curve)
            rank = (behind, job.seconds, -job.trial.number)
            if first is None or rank > first:
                best, partition, first = job, here, rank
        return None if best is None else (best, partition, best.seconds)

    def finish(self, job: _Job, partition: int | None) -> bool:
        job.open = [number for number in job.open if number != partition]
        return not job.open

    def tell(self, results: list[Result]) -> list[Result]:
        self._told += results
        if self._together and any(job.trial.live for job in self.jobs.values()):
            return []
        told, self._told = self._told, []
        return told

    def idle(self) -> int:
        if not self._together:
            return super().idle()
        return 0 if self.jobs else max(0, len(self._held) - sum(job.trial.live for job in self._waiting))

    def open_round(self) -> bool:
        if self.jobs or not self._waiting:
            return False
        self.jobs = {job.trial.trial_id: job for job in self._waiting if job.trial.live}
        self._waiting = []
        return True


class _Tasks(_Floor):
    """A worker trains the epochs of a job one after the other; jobs queue in the order of the decisions."""

    def take(self, worker: int) -> tuple[_Job, int | None, float] | None:
        waiting = [job for job in self.jobs.values() if not job.busy]
        job = next((job for job in waiting if job.worker == worker), None)
        job = job or next((job for job in waiting if job.worker is None), None)
        if job is None:
            return None
        job.worker = worker
        return job, None, job.seconds * self.partitions

    def finish(self, job: _Job, partition: int | None) -> bool:  # noqa: ARG002 - an epoch is one unit
        return True


class _Course:
    """Events of a simulated search."""

    def __init__(
        self,
        procedure: Procedure,
        losses: Callable[[Trial, int], float | Mapping[str, float] | None],
        seconds: float | Callable[[Trial], float],
        workers: int,
        floor: _Floor,
    ) -> None:
        self._procedure = procedure
        self._losses = losses
        self._seconds = seconds
        self._workers = workers
        self._floor = floor
        self._events: list[tuple[float, int, int, int | None, _Job]] = []
        self._visits: list[Visit] = []
        self._log: list[Exchange] = []

    def run(self, limit: float | None) -> Simulation:
        now = 0.0
        self._ask([])
        self._fill(now)
        while not self._procedure.done:
            if not self._events:
                raise ProcedureError("the procedure is not done, and no configuration has an epoch to train")
            now = self._events[0][0]
            if limit is not None and now > limit:
                now = limit
                self._ask([OutOfTime()])
                break
            results = self._finished(now)
            if told := self._floor.tell(results):
                self._ask(told)
            self._fill(now)
        # Units of stopped configurations that nobody waits for end with the search.
        visits = tuple(
            Visit(visit.trial_id, visit.epoch, visit.partition, visit.worker, visit.start, min(visit.end, now))
            for visit in self._visits
        )
        return Simulation(self._workers, now, visits, tuple(self._log), self._procedure.ledger)

    def _ask(self, results: Sequence[Result], idle: int = 0) -> bool:
        exchange = Exchange.with_procedure(self._procedure, results, idle=idle)
        if results or exchange.decisions:
            self._log.append(exchange)
        for decision in exchange.decisions:
            self._admit(self._procedure.ledger[decision.trial_id])
        return bool(exchange.decisions)

    def _admit(self, trial: Trial) -> None:
        if trial.live and trial.finished < trial.granted and not self._floor.has(trial.trial_id):
            unit = self._seconds(trial) if callable(self._seconds) else self._seconds
            unit = real("seconds", unit, 0, above=True)
            self._floor.admit(_Job(trial, unit, trial.finished + 1, self._order(trial)))

    def _order(self, trial: Trial) -> list[int]:
        # Each begins with another partition, so that equal ones do not queue at the same worker.
        count = self._floor.partitions
        return [(trial.number + place) % count for place in range(count)]

    def _finished(self, now: float) -> list[Result]:
        results: list[Result] = []
        while self._events and self._events[0][0] <= now:
            _, _, worker, partition, job = heapq.heappop(self._events)
            self._floor.free.add(worker)
            job.busy = False
            if not job.trial.live:
                self._floor.jobs.pop(job.trial.trial_id, None)
            elif self._floor.finish(job, partition):
                results.append(self._result(job))
        return results

    def _result(self, job: _Job) -> Result:
        trial = job.trial
        del self._floor.jobs[trial.trial_id]
        measured = self._losses(trial, job.epoch)
        if measured is None:
            return Ended(trial.trial_id, "failed")
        if job.epoch < trial.granted:
            self._floor.admit(_Job(trial, job.seconds, job.epoch + 1, self._order(trial), worker=job.worker))
        metrics: Any = {self._procedure.metric: measured} if isinstance(measured, (int, float)) else measured
        return EpochResult(trial.trial_id, job.epoch, metrics)

    def _fill(self, now: float) -> None:
        """Give every free worker something to train; ask for more while some have nothing."""
        self._assign(now)
        while not self._procedure.done and (idle := self._floor.idle()) and self._ask([], idle):
            self._assign(now)
        if self._floor.open_round():
            self._assign(now)

    def _assign(self, now: float) -> None:
        for trial_id in [trial_id for trial_id, job in self._floor.jobs.items() if not job.trial.live and not job.busy]:
            del self._floor.jobs[trial_id]
        for worker in sorted(self._floor.free):
            taken = self._floor.take(worker)
            if taken is None:
                continue
            job, partition, duration = taken
            job.busy = True
            self._floor.free.discard(worker)
            self._visits.append(Visit(job.trial.trial_id, job.epoch, partition, worker, now, now + duration))
            heapq.heappush(self._events, (now + duration, len(self._visits), worker, partition, job))
