"""One run, from its first epoch or from where it stopped, to its last."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from cerebro_spark.callbacks import EpochFinished, EventStream, RunFailed, RunFinished
from cerebro_spark.errors import RunError
from cerebro_spark.hopper._budget import Budget
from cerebro_spark.hopper._coordinator import Coordinator
from cerebro_spark.hopper._director import Director
from cerebro_spark.hopper._log_writer import LogWriter
from cerebro_spark.hopper._metrics import epoch_metrics
from cerebro_spark.hopper._pool import Member
from cerebro_spark.hopper._publisher import Publisher, run_started
from cerebro_spark.hopper._retention import Retention
from udfs.hopper import HOPPER, Checkpoints, WorkerSettings
from udfs.rpc import Endpoint

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from cerebro_spark.callbacks import Callback
    from cerebro_spark.hopper._backend import SparkBackend
    from cerebro_spark.hopper._events import Event, Loss
    from cerebro_spark.hopper._grouping import Grouping
    from cerebro_spark.hopper._interrupts import Interrupts
    from cerebro_spark.hopper._journal import Journal, RunSpec
    from cerebro_spark.hopper._lease import Lease
    from cerebro_spark.hopper._probe import Probed
    from cerebro_spark.hopper._recorded import Recorded
    from cerebro_spark.hopper._trial import Trial
    from optimizer.procedures import Procedure
    from udfs.hopper import AdaptationSettings
    from udfs.shards import PreparedData

__all__ = ["Outcome", "Run"]

# Between two looks at whether the run is over, so that an interrupt by the user is heard in between.
_LOOK_S = 0.25

# Between two writes of the logs: a driver that is killed loses what was printed since.
_LOGS_S = 10.0


@dataclass(frozen=True, slots=True)
class Outcome:
    """Cost and course of a run.

    Attributes
    ----------
    events : tuple of Event
        Units that ended, those of earlier parts of the run included.
    seconds : float
        Duration of this part, from the first worker to the last epoch.
    redone : int
        Units that were trained or evaluated again after a loss.
    losses : tuple of Loss
        Workers that were lost, when and why.
    decision_seconds, checkpoint_seconds : float
        Spent in the scheduler, and in writing checkpoints, which happens beside the training.
    cpu_seconds : dict of str to float
        Per worker, of its process, in the turns of this run.
    refused : int
        Calls that did not come from this run's own workers.
    """

    events: tuple[Event, ...]
    seconds: float
    redone: int
    losses: tuple[Loss, ...]
    decision_seconds: float
    checkpoint_seconds: float
    cpu_seconds: dict[str, float]
    refused: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A procedure, data, and where to train what it starts.

    Parameters
    ----------
    spec : RunSpec
    journal : Journal
    backend : SparkBackend
    prepared : PreparedData
    trainer_fn : callable
    procedure : Procedure
        New; with a run that is resumed, one of the same arguments.
    probed : Probed
        A configuration, as it was tried on the driver.
    unit_timeout_s : float, optional
    budget : Budget
        Once it is spent, the procedure is told that its time is over.
    lease : Lease
        Of the run, held.
    interrupts : Interrupts
        Of this thread, entered.
    recorded : Recorded, optional
        Earlier run to follow; the procedure starts its trials, and no others.
    begun : callable, optional
        Called with the coordinator and the settings before the first unit, for requests of the user.
    grouping : Grouping, optional
        Decides which trials train together. By default each trains by itself.
    adaptation : AdaptationSettings, optional
        Have the workers train on outputs of frozen layers; the data are :class:`udfs.shards.GrowingData`.
    """

    spec: RunSpec
    journal: Journal
    backend: SparkBackend
    prepared: PreparedData
    trainer_fn: Callable[[dict[str, Any]], Any]
    procedure: Procedure
    probed: Probed
    lease: Lease
    interrupts: Interrupts
    unit_timeout_s: float | None = None
    budget: Budget = field(default_factory=Budget)
    recorded: Recorded | None = None
    begun: Callable[[Coordinator, RunSpec], None] | None = None
    grouping: Grouping | None = None
    adaptation: AdaptationSettings | None = None

    def execute(self, callbacks: Sequence[Callback] = ()) -> tuple[list[Trial], Outcome]:
        """Train until the procedure has ended every trial, and until the callbacks have heard of it.

        Parameters
        ----------
        callbacks : sequence of Callback

        Returns
        -------
        tuple of list of Trial and Outcome
            All trials, in the order of their starts.

        Raises
        ------
        RunError
            All workers were lost too often, the store does not take the checkpoints, or the procedure decides something
            else than before.
        KeyboardInterrupt
            The user interrupted it; the message says how to go on.
        """
        earlier = self.journal.events()
        earlier_s = max((event.ended for event in earlier), default=0.0)
        director = Director(self.procedure, self.journal, slots=self.backend.num_workers, trial=self._trial)
        director.begin()
        trials = director.trials
        running = [trial for trial in trials if trial.running]
        epoch = min((trial.epoch for trial in running), default=self.spec.epochs)
        planned = self.procedure.plan().units(len(self.prepared.partitions))
        with EventStream(callbacks) as stream:
            stream.publish(run_started(self.spec, trials, epoch, planned, earlier_s))
            try:
                if running:
                    outcome = self._train(director, stream, earlier, earlier_s)
                else:
                    outcome = Outcome(tuple(earlier), 0.0, 0, (), 0.0, 0.0, {}, 0)
            except BaseException as error:
                stream.publish(RunFailed(run_id=self.spec.run, error=f"{type(error).__name__}: {error}"))
                raise
            self._retention(trials).sweep(trials)
            stream.publish(RunFinished(run_id=self.spec.run, seconds=outcome.seconds))
        return trials, outcome

    def _trial(self, trial_id: str, params: dict[str, Any]) -> Trial:
        return self.journal.trial(trial_id, params, len(self.prepared.partitions))

    def _train(self, director: Director, stream: EventStream, earlier: list[Event], earlier_s: float) -> Outcome:
        shares = self._shares()
        settings = self._settings(shares)
        # Once now, so that a function that cannot be pickled says so before Spark starts a job.
        settings["w0"].packed()
        coordinator = Coordinator(
            director,
            workers={name: partitions for name, partitions in shares.items() if partitions},
            rows={shard.partition: shard.rows for shard in self.prepared.shards if shard.split == "train"},
            validates=self.prepared.test_fraction > 0,
            policy=self.spec.policy,
            seed=self.spec.seed,
            rounds=self.spec.rounds,
            unit_timeout_s=self.unit_timeout_s,
            rejoin_s=self.backend.rejoin_s,
            model_bytes=self.probed.model_bytes,
            close=partial(self._close, stream, self._retention(director.trials)),
            decided=self._decided,
            earlier_s=earlier_s,
            recorded=self.recorded,
            observer=Publisher(stream),
            grouping=self.grouping,
            checkpoints=self.spec.checkpoints,
        )
        if self.begun is not None:
            self.begun(coordinator, self.spec)
        member = Member(self.backend, coordinator)
        try:
            refused = self._supervise(coordinator, member, settings, director.trials)
        except KeyboardInterrupt:
            message = f"run {self.spec.run!r} was interrupted in epoch {coordinator.epoch}. {self._remedy}"
            raise KeyboardInterrupt(message) from None
        finally:
            coordinator.shut_down()
        if coordinator.error is not None:
            raise RunError(
                f"run {self.spec.run!r} stopped in epoch {coordinator.epoch}: {coordinator.error}. {self._remedy}"
            ) from coordinator.error
        self.interrupts.release()
        return Outcome(
            tuple(earlier + coordinator.events),
            coordinator.seconds - earlier_s,
            coordinator.redone,
            tuple(coordinator.losses),
            coordinator.decision_seconds,
            coordinator.checkpoint_seconds,
            member.cpu_seconds,
            refused,
        )

    @property
    def _remedy(self) -> str:
        if self.spec.replays:
            return f"A replay is not resumed: replay {self.spec.replays!r} again, with another run_id"
        if self.spec.procedure == "GridSearch":
            return f"Go on with Selection.resume(store, {self.spec.run!r}, backend=..., trainer_fn=...)"
        return f"Go on with resume({self.spec.run!r}) of a {self.spec.procedure} with the same settings"

    def _supervise(
        self,
        coordinator: Coordinator,
        member: Member,
        settings: Mapping[str, WorkerSettings],
        trials: Sequence[Trial],
    ) -> int:
        """Have the workers serve the run until its end: an interrupt at any place ends it as well.

        Returns
        -------
        int
            Calls that were refused.
        """
        logs = LogWriter(self.journal, self.lease, trials)
        endpoint: Endpoint | None = None
        try:
            try:
                credentials = member.join()
                endpoint = Endpoint(
                    self.backend.host, credentials, HOPPER, coordinator.answer, partial(_packed, settings)
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
        told = False
        looked = coordinator.seconds
        # Of earlier parts of the run the workers were not counted: as many as there are today.
        worker_seconds = looked * self.backend.num_workers
        while not coordinator.wait(_LOOK_S):
            self.lease.check()
            logs.write_if_due()
            seconds = coordinator.seconds
            worker_seconds += (seconds - looked) * len(coordinator.alive)
            looked = seconds
            if not told and (reason := self.budget.over(seconds, worker_seconds)):
                told = True
                coordinator.out_of_time(reason)

    def _shares(self) -> dict[str, tuple[int, ...]]:
        """Deal each worker its own shards, then copies of the next ones'; workers that join later get none yet."""
        count = self.backend.num_workers
        shares = {
            f"w{number}": tuple(
                dict.fromkeys(
                    partition
                    for copy in range(self.spec.replicas)
                    for partition in self.prepared.partitions
                    if partition % count == (number + copy) % count
                )
            )
            for number in range(count)
        }
        return shares | {f"w{number}": () for number in range(count, self.backend.most_workers)}

    def _settings(self, shares: Mapping[str, tuple[int, ...]]) -> dict[str, WorkerSettings]:
        return {
            name: WorkerSettings(
                worker=name,
                run=self.spec.run,
                trainer_fn=self.trainer_fn,
                sample=self.spec.configs[0],
                prepared=self.prepared,
                partitions=partitions,
                seed=self.spec.seed,
                threads=self.backend.threads_per_worker,
                memory_bytes=self.backend.memory_bytes,
                device=self.backend.device,
                adaptation=self.adaptation,
            )
            for name, partitions in shares.items()
        }

    def _decided(self, trials: Sequence[Trial]) -> None:
        for trial in trials:
            self.journal.write_trial(trial)

    def _retention(self, trials: Sequence[Trial]) -> Retention:
        checkpoints = Checkpoints(self.prepared.store, self.spec.run)
        return Retention(checkpoints, self.spec, trials, len(self.prepared.partitions), self.recorded)

    def _close(
        self, stream: EventStream, retention: Retention, trials: Sequence[Trial], events: Sequence[Event]
    ) -> None:
        """Compute the metrics of finished epochs, write the journal, and tell the callbacks once it is durable."""
        running = [trial for trial in trials if trial.running]
        finished: dict[int, dict[str, dict[str, float]]] = {}
        for trial in running:
            metrics = epoch_metrics(trial, trial.epoch, self.probed.results)
            finished.setdefault(trial.epoch, {})[trial.trial_id] = dict(metrics)
            trial.history.append(metrics)
        try:
            self.journal.close(trials, events)
        except BaseException:
            # An epoch is over once the store has its results.
            for trial in running:
                trial.history.pop()
            raise
        retention.sweep(trials)
        for epoch, of_trials in sorted(finished.items()):
            stream.publish(EpochFinished(epoch=epoch, metrics=of_trials))


def _packed(settings: Mapping[str, WorkerSettings], worker: str) -> bytes | None:
    """Pickle a worker's settings when it asks for them: what the user's function has captured may be large."""
    return settings[worker].packed() if worker in settings else None
