"""Replies of the driver to the requests of workers."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Any

from cerebro_spark.errors import CheckpointError, RunError
from cerebro_spark.hopper._state import Attached
from udfs.hopper import (
    Abort,
    Acknowledged,
    Beat,
    CheckpointFailed,
    CheckpointStored,
    Ended,
    Hello,
    Meet,
    NextUnit,
    Obsolete,
    Queued,
    ShardFailed,
    Stop,
    Wait,
    Welcome,
)
from udfs.rpc import RefusedError
from udfs.shards import ShardError

if TYPE_CHECKING:
    from cerebro_spark.hopper._assignment import Assignments
    from cerebro_spark.hopper._epochs import Epochs
    from cerebro_spark.hopper._liveness import Liveness
    from cerebro_spark.hopper._recovery import Recovery
    from cerebro_spark.hopper._state import RunState
    from cerebro_spark.hopper._teams import Teams
    from cerebro_spark.hopper._trial import Trial
    from udfs.hopper import Apart, EvaluateUnit, JointUnit, Met, Printed, TrainUnit
    from udfs.rpc import Request

__all__ = ["Answers"]

_LOG = logging.getLogger(__name__)

# How long a request for the next unit waits at the driver; short of the caller's own patience.
_POLL_S = 10.0


class Answers:
    """Replies to the requests of :data:`udfs.hopper.HOPPER`, from any thread."""

    def __init__(
        self,
        state: RunState,
        *,
        liveness: Liveness,
        teams: Teams,
        assignments: Assignments,
        recovery: Recovery,
        epochs: Epochs,
    ) -> None:
        self._state = state
        self._liveness = liveness
        self._teams = teams
        self._assignments = assignments
        self._recovery = recovery
        self._epochs = epochs
        self._model_bytes = state.context.probed.model_bytes

    def answer(self, request: Request[Any]) -> Any:
        """Reply to a request.

        Raises
        ------
        udfs.rpc.RefusedError
            It names a trial that the run does not have, or reports what was not asked for.
        """
        match request:
            case Hello():
                return self._hello(request)
            case NextUnit():
                return self._next(request)
            case Meet() | Beat() | Ended() | Queued():
                return self._process(request)
            case CheckpointStored():
                return self._stored(request)
            case CheckpointFailed():
                return self._failed(request)
            case ShardFailed():
                _LOG.warning("worker %s: %s", request.worker, request.error)
                self._state.fail(ShardError(request.error))
                return Acknowledged()
        raise RefusedError(f"a {type(request).__name__}, which a run's driver does not answer")

    def _hello(self, request: Hello) -> Welcome | Stop:
        state, name = self._state, request.worker
        with state.changed:
            if state.over:
                return Stop()
            self._recovery.lose(name, "another attempt has taken its place")
            needed = request.shard_bytes + self._model_bytes
            if needed > request.memory_bytes:
                state.fail(
                    RunError(
                        f"worker {name} on {request.host} has {request.memory_bytes:,} bytes of memory, and its shards "
                        f"and a model in training take about {needed:,}: start Spark with larger machines, or with "
                        "more workers"
                    )
                )
                return Stop()
            now = time.monotonic()
            state.workers[name] = Attached(name, request.attempt, request.location, request.host, now, now)
            _LOG.info("worker %s on %s is attached", name, request.host)
            state.holdings.attach(name)
            state.hopper.join(name, state.holdings[name])
            self._recovery.adopt()
            self._epochs.step()
            return Welcome()

    def _next(self, request: NextUnit) -> TrainUnit | JointUnit | EvaluateUnit | Wait | Stop:
        state, until = self._state, time.monotonic() + _POLL_S
        with state.changed:
            self._log(request.attempt, request.printed)
            worker = self._liveness.heard(request.worker, request.attempt)
            if worker is None:
                return Stop()
            worker.asked, worker.is_waiting = worker.seen, False
            if request.report is not None:
                self._assignments.apply_report(worker, request.report)
                self._epochs.step()
            if request.leaves:
                self._recovery.lose(worker.name, "its machine is about to end", interrupted=True)
                self._epochs.step()
                return Stop()
            while not state.over and state.workers.get(worker.name) is worker:
                begun = time.perf_counter()
                assignment = self._assignments.assign_next(worker) if request.takes else None
                state.decision_seconds += time.perf_counter() - begun
                drop, worker.drop = tuple(worker.drop), []
                holds = tuple(sorted(state.holdings[worker.name]))
                if assignment is not None:
                    state.given[worker.attempt] = assignment.trials
                    return self._assignments.build_message(worker.name, assignment, drop=drop, holds=holds)
                remaining = until - time.monotonic()
                if request.takes:
                    worker.idle_at = state.changes
                elsewhere = state.shared if request.takes else worker.idle_at != state.changes
                if remaining <= 0 or drop or elsewhere:
                    return Wait(drop=drop, holds=holds)
                state.changed.wait(remaining)
                worker.asked = worker.seen = time.monotonic()
            return Stop()

    def _queued(self, request: Queued) -> Acknowledged | Stop:
        state = self._state
        with state.changed:
            worker = self._liveness.heard(request.worker, request.attempt)
            if worker is not None:
                worker.asked = worker.seen
            return Stop() if state.over or request.attempt in state.dismissed else Acknowledged()

    def _process(self, request: Meet | Beat | Ended | Queued) -> Met | Apart | Acknowledged | Abort | Stop:
        if isinstance(request, Queued):
            return self._queued(request)
        if isinstance(request, Meet):
            with self._state.changed:
                return self._teams.meet(self._liveness.heard(request.worker, request.attempt), request)
        state = self._state
        with state.changed:
            if isinstance(request, Ended):
                self._liveness.ended(request.attempt)
                self._log(request.attempt, request.printed)
                state.changed.notify_all()
                return Acknowledged()
            self._liveness.beats(request.attempt)
            worker = self._liveness.heard(request.worker, request.attempt)
            given_up = request.attempt in state.dismissed or (worker is not None and worker.abort)
            return Abort() if given_up or state.aborting else Acknowledged()

    def _stored(self, request: CheckpointStored) -> Acknowledged | Obsolete:
        state = self._state
        with state.changed:
            trial = self._trial(request.trial_id)
            dropped = [self._trial(trial_id) for trial_id in request.dropped]
            if self._liveness.heard(request.worker, request.attempt) is None:
                # The attempt was considered lost: its unit is trained again, possibly after others.
                return Obsolete()
            state.checkpoint_seconds += request.seconds
            # The report of the unit itself may arrive later.
            trial.was_stored(request.version, request.digest)
            if trial.durable:
                state.drop_copy(trial)
            for other in dropped:
                if other.holder == request.worker and other.durable:
                    other.holder = None
            self._epochs.step()
            return Acknowledged()

    def _failed(self, request: CheckpointFailed) -> Acknowledged:
        trial = self._trial(request.trial_id)
        self._state.fail(
            CheckpointError(
                f"the store would not take the checkpoint of {trial.trial_id} from worker {request.worker}: "
                f"{request.error}. The checkpoints in it are intact: make room, or repair it, and resume the run"
            )
        )
        return Acknowledged()

    def _log(self, attempt: str, printed: Printed | None) -> None:
        """Add what a unit printed to the log of each of its trials."""
        if printed is None:
            return
        first, unit = self._trial(printed.trial_id), self._state.given.get(attempt, ())
        for trial in unit if unit and unit[0] is first else (first,):
            trial.log = trial.log.extended(printed)

    def _trial(self, trial_id: str) -> Trial:
        if trial_id not in self._state.trial:
            raise RefusedError(f"a report of {trial_id!r}, which is not a trial of this run")
        return self._state.trial[trial_id]
