"""Recovery: what was lost with a worker is trained again, and its shards go to others (Cerebro, section 3.5.6)."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

from cerebro_spark.hopper._events import Loss
from optimizer.hopper import Unit

if TYPE_CHECKING:
    from cerebro_spark.hopper._state import Assignment, Attached, RunState
    from cerebro_spark.hopper._trial import Trial
    from udfs.hopper import UnitFailure

__all__ = ["Recovery"]

_LOG = logging.getLogger(__name__)

# After so many workers that died, or were ended, in the middle of it a trial is held to be the cause.
_STRIKES = 3


class Recovery:
    """Handles lost workers and failed units. Its callers hold the run's lock.

    Parameters
    ----------
    state : RunState
    rejoin_s : float
        How long a lost worker is awaited before others take its shards.
    """

    def __init__(self, state: RunState, rejoin_s: float) -> None:
        self._state = state
        self._rejoin_s = rejoin_s

    def lose(self, name: str, why: str) -> None:
        """Detach a worker, and give back its unit and the checkpoints that it alone had."""
        state = self._state
        worker = state.workers.pop(name, None)
        if worker is None:
            return
        state.holdings.detach(name, time.monotonic())
        loss = Loss(state.seconds, name, worker.host, why)
        state.losses.append(loss)
        state.observer.worker_lost(loss)
        _LOG.warning("lost worker %s on %s: %s", name, worker.host, why)
        state.hopper.lose(name)
        if worker.assignment is not None:
            self._give_back(worker.assignment, why)
        for trial in state.trials:
            if trial.holder == name:
                trial.holder = None
            # Also a trial whose holder was lost before, while this worker may have had its checkpoint.
            self.rewind(trial)
        self.adopt()

    def give_up(self, name: str) -> None:
        """Wait for a worker no longer: its partitions go to the remaining ones, which read them from the store."""
        self.lose(name, "it was started as often as it may be")
        self._state.holdings.give_up(name)
        self.adopt()

    def give_up_late(self) -> None:
        """Wait no longer for workers that were lost too long ago."""
        for name in self._state.holdings.expired(time.monotonic() - self._rejoin_s):
            _LOG.warning("worker %s did not come back in %.0f s: others take its shards", name, self._rejoin_s)
        self.adopt()

    def adopt(self) -> None:
        """Reassign orphaned shards to attached workers."""
        for name, partition in self._state.holdings.adopt():
            self._state.hopper.hold(name, [partition])

    def failed(self, worker: Attached, assignment: Assignment, failure: UnitFailure) -> None:
        """Try a unit again whose checkpoint was out of reach; end the trial of any other."""
        trial = assignment.trial
        if assignment.kind == "train":
            self._state.hopper.fail(Unit(trial.trial_id, assignment.partition))
        if failure.reason != "hop":
            _LOG.warning("%s %s on %s:\n%s", trial.trial_id, failure.reason, worker.name, failure.traceback)
            self._end(trial, failure.reason, failure.traceback)
            return
        _LOG.warning("%s did not get its checkpoint: %s", assignment.unit_id, failure.traceback)
        if trial.holder not in self._state.workers or trial.holder == assignment.peer:
            trial.holder = None
        if assignment.from_store:
            trial.strikes += 1
            if trial.strikes >= _STRIKES:
                if not trial.forget_durable(assignment.epoch):
                    remedy = "Selection.resume goes on from an earlier checkpoint, or from the beginning"
                    self._end(trial, "lost its state", f"{failure.traceback}. {remedy}")
                    return
                trial.strikes = 0
                _LOG.warning("%s goes back to its checkpoint after %d units", trial.trial_id, trial.durable_version)
        self._evaluate_again(assignment)
        self.rewind(trial)

    def rewind(self, trial: Trial) -> None:
        """Take a trial back to its checkpoint in the store, where the last one is lost for sure."""
        state = self._state
        if state.reachable(trial) or not trial.running:
            return
        # A worker that has it in training may have the checkpoint, or will say that it has not.
        if any(assignment.trial is trial for assignment in state.assignments):
            return
        state.cancel_evaluation(trial)
        for partition in trial.rewind():
            state.redone += 1
            state.hopper.reopen(trial.trial_id, partition)

    def _give_back(self, assignment: Assignment, why: str) -> None:
        trial = assignment.trial
        self._state.redone += 1
        trial.strikes += 1
        if trial.strikes >= _STRIKES:
            text = f"{trial.strikes} workers were lost while they had it; the last one: {why}"
            self._end(trial, "killed its workers", text)
        else:
            self._evaluate_again(assignment)

    def _evaluate_again(self, assignment: Assignment) -> None:
        if assignment.kind == "evaluate" and assignment.trial.running:
            self._state.evaluations.add((assignment.trial.trial_id, assignment.partition))

    def _end(self, trial: Trial, status: str, why: str) -> None:
        if not trial.running:
            return
        trial.status, trial.traceback = status, why
        self._state.hopper.stop(trial.trial_id)
        self._state.cancel_evaluation(trial)
        self._state.observer.trial_ended(trial)
