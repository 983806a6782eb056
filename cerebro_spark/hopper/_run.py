"""One run, from its first epoch or from where it stopped, to its last."""

from __future__ import annotations

import secrets
import time
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from cerebro_spark.callbacks import EpochFinished, EventStream, RunFailed, RunFinished
from cerebro_spark.errors import RunError
from cerebro_spark.hopper._coordinator import Coordinator
from cerebro_spark.hopper._metrics import epoch_metrics
from cerebro_spark.hopper._publisher import Publisher, run_started
from udfs.driver import WorkerJobs
from udfs.hopper import HOPPER, HopperWorker
from udfs.rpc import Endpoint
from udfs.store import StoreError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from cerebro_spark.callbacks import Callback
    from cerebro_spark.hopper._backend import SparkBackend
    from cerebro_spark.hopper._events import Event, Loss
    from cerebro_spark.hopper._interrupts import Interrupts
    from cerebro_spark.hopper._journal import Journal, RunSpec
    from cerebro_spark.hopper._lease import Lease
    from cerebro_spark.hopper._log import TrialLog
    from cerebro_spark.hopper._probe import Probed
    from cerebro_spark.hopper._trial import Trial
    from optimizer.hopper import Placement
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
        Per worker, of its process.
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
    """Trials, data, and where to train them.

    Parameters
    ----------
    spec : RunSpec
    journal : Journal
    backend : SparkBackend
    prepared : PreparedData
    trainer_fn : callable
    trials : list of Trial
    probed : Probed
        The first configuration, as it was tried on the driver.
    unit_timeout_s : float, optional
    lease : Lease
        Of the run, held.
    interrupts : Interrupts
        Of this thread, entered.
    replay : mapping of int to sequence of Placement, optional
        Visits to follow, by epoch.
    """

    spec: RunSpec
    journal: Journal
    backend: SparkBackend
    prepared: PreparedData
    trainer_fn: Callable[[dict[str, Any]], Any]
    trials: list[Trial]
    probed: Probed
    lease: Lease
    interrupts: Interrupts
    unit_timeout_s: float | None = None
    replay: Mapping[int, Sequence[Placement]] | None = None

    def execute(self, callbacks: Sequence[Callback] = ()) -> Outcome:
        """Train until every trial has ended, and until the callbacks have heard of it.

        Parameters
        ----------
        callbacks : sequence of Callback

        Raises
        ------
        RunError
            All workers were lost too often, or the store does not take the checkpoints.
        KeyboardInterrupt
            The user interrupted it; the message says how to go on.
        """
        earlier = self.journal.events()
        earlier_s = max((event.ended for event in earlier), default=0.0)
        running = [trial for trial in self.trials if trial.running]
        epoch = min((len(trial.history) for trial in running), default=self.spec.epochs)
        with EventStream(callbacks) as stream:
            stream.publish(run_started(self.spec, self.trials, epoch, len(self.prepared.partitions), earlier_s))
            try:
                if running:
                    outcome = self._train(stream, epoch, earlier, earlier_s)
                else:
                    outcome = Outcome(tuple(earlier), 0.0, 0, (), 0.0, 0.0, {}, 0)
            except BaseException as error:
                stream.publish(RunFailed(run_id=self.spec.run, error=f"{type(error).__name__}: {error}"))
                raise
            stream.publish(RunFinished(run_id=self.spec.run, seconds=outcome.seconds))
        return outcome

    def _train(self, stream: EventStream, epoch: int, earlier: list[Event], earlier_s: float) -> Outcome:
        secret = secrets.token_bytes(32)
        shares = self._shares()
        coordinator = Coordinator(
            self.trials,
            workers={name: partitions for name, partitions in shares.items() if partitions},
            rows={shard.partition: shard.rows for shard in self.prepared.shards if shard.split == "train"},
            validates=self.prepared.test_fraction > 0,
            epochs=self.spec.epochs,
            epoch=epoch,
            policy=self.spec.policy,
            seed=self.spec.seed,
            unit_timeout_s=self.unit_timeout_s,
            rejoin_s=self.backend.rejoin_s,
            model_bytes=self.probed.model_bytes,
            finished_epoch=partial(self._finish_epoch, stream),
            earlier_s=earlier_s,
            replay=self.replay,
            observer=Publisher(stream),
        )
        endpoint = Endpoint(self.backend.host, secret, HOPPER, coordinator.answer)
        jobs = WorkerJobs(
            self.backend.spark,
            coordinator,
            self._workers(shares, endpoint.location, secret),
            restarts=self.backend.restarts,
        )
        remedy = f"Go on with Selection.resume(store, {self.spec.run!r}, backend=..., trainer_fn=...)"
        try:
            with self.backend.occupied():
                self._supervise(coordinator, jobs)
        except KeyboardInterrupt:
            message = f"run {self.spec.run!r} was interrupted in epoch {coordinator.epoch}. {remedy}"
            raise KeyboardInterrupt(message) from None
        finally:
            endpoint.shutdown()
        if coordinator.error is not None:
            raise RunError(
                f"run {self.spec.run!r} stopped in epoch {coordinator.epoch}: {coordinator.error}. {remedy}"
            ) from coordinator.error
        self.interrupts.release()
        return Outcome(
            tuple(earlier + coordinator.events),
            coordinator.seconds - earlier_s,
            coordinator.redone,
            tuple(coordinator.losses),
            coordinator.decision_seconds,
            coordinator.checkpoint_seconds,
            {row["worker"]: row["cpu_seconds"] for row in jobs.reports},
            endpoint.refused,
        )

    def _supervise(self, coordinator: Coordinator, jobs: WorkerJobs) -> None:
        """Start the workers, wait for the end of the run, and end them: an interrupt at any place ends them as well."""
        written = {trial.trial_id: trial.log for trial in self.trials}
        try:
            try:
                jobs.start()
                self._wait(coordinator, written)
            except BaseException as error:
                coordinator.fail(error)
                raise
            finally:
                # An interrupt before this line is the first: all others are held from then on.
                self.interrupts.hold()
        finally:
            jobs.stop()
            self._write_logs(written)

    def _wait(self, coordinator: Coordinator, written: dict[str, TrialLog]) -> None:
        due = time.monotonic() + _LOGS_S
        while not coordinator.wait(_LOOK_S):
            self.lease.check()
            if time.monotonic() > due:
                self._write_logs(written)
                due = time.monotonic() + _LOGS_S

    def _write_logs(self, written: dict[str, TrialLog]) -> None:
        """Write the logs that have changed, unless another driver has the run; no log is worth a run."""
        with suppress(StoreError, RunError):
            self.lease.check()
            for trial in self.trials:
                if written[trial.trial_id] is not trial.log:
                    written[trial.trial_id] = trial.log
                    self.journal.write_log(trial)

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

    def _workers(self, shares: Mapping[str, tuple[int, ...]], driver: str, secret: bytes) -> list[HopperWorker]:
        return [
            HopperWorker(
                worker=name,
                driver=driver,
                secret=secret,
                run=self.spec.run,
                trainer_fn=self.trainer_fn,
                sample=self.spec.configs[0],
                prepared=self.prepared,
                partitions=partitions,
                seed=self.spec.seed,
                threads=self.backend.threads_per_worker,
                memory_bytes=self.backend.memory_bytes,
                device=self.backend.device,
            )
            for name, partitions in shares.items()
        ]

    def _finish_epoch(self, stream: EventStream, epoch: int, trials: Sequence[Trial], events: Sequence[Event]) -> None:
        """Compute the metrics, write the journal, and tell the callbacks, once the results are durable."""
        finished = [trial for trial in trials if trial.running and len(trial.history) == epoch]
        for trial in finished:
            trial.history.append(epoch_metrics(trial, epoch, self.probed.results))
        for trial in trials:
            if trial.running and epoch + 1 >= self.spec.epochs:
                trial.status = "finished"
        self.journal.close_epoch(epoch, trials, [event for event in events if event.epoch == epoch])
        stream.publish(
            EpochFinished(epoch=epoch, metrics={trial.trial_id: dict(trial.history[epoch]) for trial in finished})
        )
