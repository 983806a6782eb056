"""Simulation of a search: a procedure's decisions, carried out in simulated time."""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, Any

from benchmarks.procedures._course import Simulation, Visit
from benchmarks.procedures._workers import HoppingWorkers, TaskWorkers
from optimizer.arguments import one_of, real, whole
from optimizer.errors import InvalidArgumentError
from optimizer.hopper import POLICIES
from optimizer.procedures import Ended, EpochResult, Exchange, OutOfTime, ProcedureError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from benchmarks.procedures._workers import Work, Workers
    from optimizer.procedures import Procedure, Result, Trial

__all__ = ["simulate"]

# Relative tolerance: work whose ends differ by rounding alone frees its workers together.
_TOGETHER = 1e-12


def simulate(
    procedure: Procedure,
    losses: Callable[[Trial, int], float | Mapping[str, float] | None],
    seconds: float | Callable[[Trial], float],
    workers: int,
    *,
    partitions: int | None = None,
    rounds: str = "rolling",
    parallelism: str = "hopping",
    policy: str = POLICIES[0],
    seed: int = 0,
    max_seconds: float | None = None,
) -> Simulation:
    """Run a procedure to its end in simulated time.

    Models hop by the :class:`optimizer.hopper.Hopper` of a live run, which learns unit times during the run. The
    procedure is offered as many slots as there are workers, as in a live run.

    Parameters
    ----------
    procedure : Procedure
        New procedure, which the simulation changes.
    losses : callable
        ``losses(trial, epoch)`` returns the metric that decides, or all metrics, after an epoch of the trial; None lets
        the trial fail in that epoch.
    seconds : float or callable
        Seconds of a unit, which is a configuration over one partition, or a function of the trial.
    partitions : int, optional
        Number of partitions; partition ``q`` is on worker ``q % workers``. By default one per worker.
    rounds : {"rolling", "together"}
        ``"rolling"`` (default) begins the next epoch of a configuration at once, ``"together"`` when all have finished
        theirs, as in the seed papers.
    parallelism : {"hopping", "tasks"}
        With ``"tasks"`` a worker has all partitions and trains the granted epochs of a configuration one after the
        other, for comparison.
    policy : str
        One of :data:`optimizer.hopper.POLICIES`; not used with ``parallelism="tasks"``.
    seed : int
        Seed of the policy. Default 0.
    max_seconds : float, optional
        Time after which the procedure receives :class:`OutOfTime`.

    Raises
    ------
    InvalidArgumentError
        A value that is not allowed; for ``policy`` and ``seed`` a :class:`~optimizer.hopper.HopperError`.
    ProcedureError
        The procedure has been asked before, or has nothing to train and is not done.

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
        raise ProcedureError("procedure must be new, got one that has been asked before")
    workers = whole("workers", workers)
    count = workers if partitions is None else whole("partitions", partitions)
    limit = None if max_seconds is None else real("max_seconds", max_seconds, 0, above=True)
    tasks = one_of("parallelism", parallelism, ("hopping", "tasks")) == "tasks"
    together = one_of("rounds", rounds, ("rolling", "together")) == "together"
    if tasks and together:
        raise InvalidArgumentError("rounds must be 'rolling' with parallelism='tasks', got 'together'")
    pool: Workers = TaskWorkers(workers) if tasks else HoppingWorkers(workers, count, policy, seed)
    each = count if tasks else 1
    return _Course(procedure, losses, seconds, workers, pool, each=each, together=together).run(limit)


class _Course:
    """Event loop of a simulated search."""

    def __init__(
        self,
        procedure: Procedure,
        losses: Callable[[Trial, int], float | Mapping[str, float] | None],
        seconds: float | Callable[[Trial], float],
        workers: int,
        pool: Workers,
        *,
        each: int,
        together: bool,
    ) -> None:
        self._procedure = procedure
        self._losses = losses
        self._seconds = seconds
        self._workers = workers
        self._pool = pool
        # Units of a piece of work.
        self._each = each
        self._together = together
        self._events: list[tuple[float, int, float, Work]] = []
        self._visits: list[Visit] = []
        self._log: list[Exchange] = []
        self._units: dict[str, float] = {}
        # Trials that train an epoch, and results to report when all have finished it.
        self._training: set[str] = set()
        self._results: list[Result] = []

    def run(self, limit: float | None) -> Simulation:
        now = 0.0
        self._ask([])
        self._assign(now)
        while not self._procedure.done:
            if not self._events:
                raise ProcedureError("procedure must train an epoch or be done, got neither")
            now = self._events[0][0]
            if limit is not None and now > limit:
                now = limit
                self._ask([OutOfTime()])
                break
            self._finish(now)
            if self._results and not (self._together and self._training):
                told, self._results = self._results, []
                self._ask(told)
            self._assign(now)
        # Units of stopped configurations end with the search.
        visits = tuple(
            Visit(visit.trial_id, visit.epoch, visit.partition, visit.worker, visit.start, min(visit.end, now))
            for visit in self._visits
        )
        return Simulation(self._workers, now, visits, tuple(self._log), self._procedure.ledger)

    def _ask(self, results: Sequence[Result]) -> None:
        """Report results and carry out the decisions; offer as many slots as workers, as in a live run."""
        ledger = self._procedure.ledger
        news = [result for result in results if isinstance(result, EpochResult | Ended)]
        over = {result.trial_id for result in news if self._last(result)}
        idle = max(0, self._workers - (ledger.runs - len(over)))
        exchange = Exchange.with_procedure(self._procedure, results, idle=idle)
        self._log.append(exchange)
        touched = [result.trial_id for result in news]
        touched += [decision.trial_id for decision in exchange.decisions]
        for trial in map(ledger.__getitem__, dict.fromkeys(touched)):
            if not trial.live:
                self._pool.stop(trial)
                self._training.discard(trial.trial_id)
            elif trial.finished < trial.granted and trial.trial_id not in self._training:
                self._training.add(trial.trial_id)
                self._pool.enter(trial)

    def _last(self, result: EpochResult | Ended) -> bool:
        return isinstance(result, Ended) or result.epoch == self._procedure.ledger[result.trial_id].granted

    def _finish(self, now: float) -> None:
        while self._events and self._events[0][0] <= now * (1 + _TOGETHER):
            _, _, seconds, work = heapq.heappop(self._events)
            trial = work[0]
            if self._pool.finish(work, seconds) and trial.live:
                self._training.discard(trial.trial_id)
                self._results.append(self._result(trial))

    def _result(self, trial: Trial) -> Result:
        epoch = trial.finished + 1
        measured = self._losses(trial, epoch)
        if measured is None:
            return Ended(trial.trial_id, "failed")
        metrics: Any = {self._procedure.metric: measured} if isinstance(measured, (int, float)) else measured
        return EpochResult(trial.trial_id, epoch, metrics)

    def _assign(self, now: float) -> None:
        for work in self._pool.take():
            trial, partition, worker = work
            seconds = self._each * self._unit(trial)
            self._visits.append(Visit(trial.trial_id, trial.finished + 1, partition, worker, now, now + seconds))
            heapq.heappush(self._events, (now + seconds, len(self._visits), seconds, work))

    def _unit(self, trial: Trial) -> float:
        if trial.trial_id not in self._units:
            unit = self._seconds(trial) if callable(self._seconds) else self._seconds
            self._units[trial.trial_id] = real("seconds", unit, 0, above=True)
        return self._units[trial.trial_id]
