"""Training of one run, from its first epoch, or from the point where it stopped, to its last."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cerebro_spark.callbacks import EventStream, RunFailed, RunFinished
from cerebro_spark.errors import RunError
from cerebro_spark.hopper._coordinator import Coordinator
from cerebro_spark.hopper._director import Director
from cerebro_spark.hopper._epoch_writer import EpochWriter
from cerebro_spark.hopper._log_writer import LogWriter
from cerebro_spark.hopper._pool import Member
from cerebro_spark.hopper._publisher import Publisher, run_started
from cerebro_spark.hopper._retention import Retention
from udfs.hopper import HOPPER
from udfs.rpc import Endpoint

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from cerebro_spark.callbacks import Callback
    from cerebro_spark.hopper._context import RunContext
    from cerebro_spark.hopper._events import Event, Loss
    from cerebro_spark.hopper._interrupts import Interrupts
    from cerebro_spark.hopper._journal import Journal, RunSpec
    from cerebro_spark.hopper._lease import Lease
    from cerebro_spark.hopper._trial import Trial
    from optimizer.procedures import Ledger, Procedure
    from udfs.shards import PreparedData

__all__ = ["Outcome", "Run", "RunResult"]

# Interval at which the main thread checks for the end of the run; it hears an interrupt by the user in between.
_CHECK_S = 0.25


@dataclass(frozen=True, slots=True)
class Outcome:
    """Course and cost of a run.

    ``events`` and ``losses`` are units that ended and workers that were lost, those of earlier parts of the run
    included; ``seconds`` is the duration of this part, from the first worker to the last epoch. ``redone`` units were
    trained or evaluated again after a loss. Writing checkpoints (``checkpoint_seconds``) happens beside the training.
    ``cpu_seconds`` are by worker. ``refused`` calls did not come from this run's own workers.
    """

    events: tuple[Event, ...]
    seconds: float
    redone: int
    losses: tuple[Loss, ...]
    decision_seconds: float
    checkpoint_seconds: float
    cpu_seconds: dict[str, float]
    refused: int


@dataclass(frozen=True, slots=True)
class RunResult:
    """Result of a run.

    ``trials`` are in the order of their starts; ``ledger`` is the procedure's final knowledge about them.
    """

    spec: RunSpec
    prepared: PreparedData
    trials: tuple[Trial, ...]
    outcome: Outcome
    ledger: Ledger


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """Execution of a procedure over prepared data.

    The lease is acquired and the interrupts are entered. A run that is resumed takes a new procedure of the same
    arguments. ``begun`` is called with the coordinator and the settings before the first unit, for requests of the
    user.
    """

    context: RunContext
    procedure: Procedure
    journal: Journal
    lease: Lease
    interrupts: Interrupts
    begun: Callable[[Coordinator, RunSpec], None] | None = None

    def execute(self, callbacks: Sequence[Callback] = ()) -> RunResult:
        """Train until the procedure has ended every trial, and until the callbacks have received all events.

        Raise RunError if all workers were lost too often, the store does not accept the checkpoints, or the procedure
        decides otherwise than the journal says, and KeyboardInterrupt with a message that says how to resume.
        """
        context = self.context
        earlier = tuple(self.journal.events())
        director = Director(self.procedure, self.journal, slots=context.backend.num_workers, trial=self._trial)
        director.begin()
        trials = director.trials
        running = [trial for trial in trials if trial.running]
        epoch = min((trial.epoch for trial in running), default=context.spec.epochs)
        planned = self.procedure.plan().units(context.num_shards)
        retention = Retention(context, trials)
        with EventStream(callbacks) as stream:
            stream.publish(run_started(context.spec, trials, epoch, planned, _seconds(earlier)))
            try:
                if running:
                    writer = EpochWriter(context, self.journal, stream, retention)
                    outcome = self._train(director, writer, stream, earlier)
                else:
                    outcome = Outcome(earlier, 0.0, 0, (), 0.0, 0.0, {}, 0)
            except BaseException as error:
                stream.publish(RunFailed(run_id=context.spec.run, error=f"{type(error).__name__}: {error}"))
                raise
            retention.sweep(trials)
            stream.publish(RunFinished(run_id=context.spec.run, seconds=outcome.seconds))
        return RunResult(context.spec, context.prepared, tuple(trials), outcome, self.procedure.ledger)

    def _trial(self, trial_id: str, params: dict[str, Any]) -> Trial:
        return self.journal.trial(trial_id, params, self.context.num_shards)

    def _train(
        self, director: Director, writer: EpochWriter, stream: EventStream, earlier: tuple[Event, ...]
    ) -> Outcome:
        """Train the trials that have not ended, after the events of earlier parts of the run."""
        spec = self.context.spec
        # A function that cannot be pickled raises here, before Spark starts a job.
        self.context.worker_settings("w0").packed()
        coordinator = Coordinator(
            director, self.context, writer, earlier_s=_seconds(earlier), observer=Publisher(stream)
        )
        if self.begun is not None:
            self.begun(coordinator, spec)
        member = Member(self.context.backend, coordinator)
        try:
            refused = self._supervise(coordinator, member)
        except KeyboardInterrupt:
            message = f"run {spec.run!r} was interrupted in epoch {coordinator.epoch}. {_remedy(spec)}"
            raise KeyboardInterrupt(message) from None
        finally:
            coordinator.shut_down()
        if coordinator.error is not None:
            raise RunError(
                f"run {spec.run!r} stopped in epoch {coordinator.epoch}: {coordinator.error}. {_remedy(spec)}"
            ) from coordinator.error
        self.interrupts.release()
        return Outcome(
            (*earlier, *coordinator.events),
            coordinator.seconds - _seconds(earlier),
            coordinator.redone,
            tuple(coordinator.losses),
            coordinator.decision_seconds,
            coordinator.checkpoint_seconds,
            member.cpu_seconds,
            refused,
        )

    def _supervise(self, coordinator: Coordinator, member: Member) -> int:
        """Run until the end with the workers, and return the number of refused calls.

        An interrupt at any place ends the run as well.
        """
        logs = LogWriter(self.journal, self.lease, coordinator.trials)
        endpoint: Endpoint | None = None
        try:
            try:
                credentials = member.join()
                endpoint = Endpoint(
                    self.context.backend.host, credentials, HOPPER, coordinator.answer, self._packed_settings
                )
                member.announce(endpoint.location)
                self._wait(coordinator, logs)
            except BaseException as error:
                coordinator.fail(error)
                raise
            finally:
                # An interrupt before this line is the first: all others are held from then on.
                self.interrupts.hold()
        finally:
            member.leave()
            if endpoint is not None:
                endpoint.shutdown()
            logs.write()
        return endpoint.refused

    def _wait(self, coordinator: Coordinator, logs: LogWriter) -> None:
        """Wait for the end of the run, and tell the procedure when the budget is spent."""
        told = False
        checked = coordinator.seconds
        # Workers of earlier parts of the run were not counted: assume as many as there are today.
        worker_seconds = checked * self.context.backend.num_workers
        while not coordinator.wait(_CHECK_S):
            self.lease.check()
            logs.write_if_due()
            seconds = coordinator.seconds
            worker_seconds += (seconds - checked) * len(coordinator.alive)
            checked = seconds
            if not told and (reason := self.context.budget.over(seconds, worker_seconds)):
                told = True
                coordinator.out_of_time(reason)

    def _packed_settings(self, worker: str) -> bytes | None:
        """Pickle a worker's settings when it asks for them: the user's function may have captured large values."""
        return self.context.worker_settings(worker).packed() if worker in self.context.shares else None


def _seconds(events: Sequence[Event]) -> float:
    """Return the time at which the last event of a run ended, in seconds since its start."""
    return max((event.ended for event in events), default=0.0)


def _remedy(spec: RunSpec) -> str:
    if spec.replays:
        return f"A replay is not resumed: replay {spec.replays!r} again, with another run_id"
    if spec.procedure == "GridSearch":
        return f"Go on with Selection.resume(store, {spec.run!r}, backend=..., trainer_fn=...)"
    return f"Go on with resume({spec.run!r}) of a {spec.procedure} with the same settings"
