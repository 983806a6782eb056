"""Recovery: what was lost with a worker is trained again, and its shards go to others (Cerebro, section 3.5.6)."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

from cerebro_spark.hopper._events import Loss
from cerebro_spark.hopper._trial import Death
from optimizer.hopper import Unit

if TYPE_CHECKING:
    from cerebro_spark.hopper._state import Assignment, Attached, RunState
    from cerebro_spark.hopper._trial import Trial
    from udfs.hopper import UnitFailure

__all__ = ["Recovery"]

_LOG = logging.getLogger(__name__)

# After so many tries in a row a checkpoint in the store is taken for damaged.
_TRIES = 3


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
        state.dismissed.add(worker.attempt)
        state.holdings.detach(name, time.monotonic())
        loss = Loss(state.seconds, name, worker.host, why)
        state.losses.append(loss)
        state.observer.worker_lost(loss)
        _LOG.warning("lost worker %s on %s: %s", name, worker.host, why)
        state.hopper.lose(name)
        if worker.assignment is not None:
            self._give_back(name, worker.assignment, why)
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
        for name in self._state.holdings.adopt():
            self._state.hopper.hold(name, self._state.holdings[name])

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
            trial.unreadable += 1
            if trial.unreadable >= _TRIES and not assignment.version:
                self._end(trial, "failed", self._no_source(trial, failure.traceback))
                return
            if trial.unreadable >= _TRIES:
                trial.forget_durable()
                trial.unreadable = 0
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
        lost = trial.rewind()
        state.redone += lost
        if lost:
            state.enter(trial)

    def uncharged(self, name: str, *, works: bool = False) -> int:
        """Count the losses of a worker that are not its own: trials are blamed for them, or may be yet.

        A trial is blamed when it has taken two workers with it in a row, for both. After the first it is open: if the
        trial gets past the unit, the loss was the worker's own. As long as no worker has finished any unit, all losses
        are the workers' own: where nothing works, the reason is not one configuration. With ``works`` another run's
        units are finished.
        """
        state = self._state
        if not state.events and not works:
            return 0
        open_losses = sum(
            death.worker == name for trial in state.running if not trial.suspect for death in trial.deaths
        )
        return state.blamed[name] + open_losses

    def _give_back(self, name: str, assignment: Assignment, why: str) -> None:
        trial = assignment.trial
        self._state.redone += 1
        if not trial.running:
            return
        trained = assignment.kind == "train"
        was_suspect = trial.suspect
        trial.deaths.append(Death(name, None if trained else assignment.partition))
        if trial.suspect:
            self._state.blamed.update(death.worker for death in trial.deaths[-1 if was_suspect else 0 :])
        if assignment.alone:
            doing = "training" if trained else "evaluating"
            text = (
                f"its worker died {len(trial.deaths)} times while {doing} it, the last time with no other trial running"
            )
            self._end(trial, "failed", f"{text}: {why}")
            return
        if trial.suspect and not was_suspect:
            _LOG.warning("%s took %d workers with it and is tried alone", trial.trial_id, len(trial.deaths))
        self._evaluate_again(assignment)

    @staticmethod
    def _no_source(trial: Trial, why: str) -> str:
        source = trial.source
        assert source is not None  # noqa: S101 - version 0 of any other trial is read from nowhere
        return (
            f"it is a clone of {source.trial_id} after epoch {source.epoch}, whose state is damaged or missing: {why}"
        )

    def _evaluate_again(self, assignment: Assignment) -> None:
        if assignment.kind == "evaluate" and assignment.trial.running:
            self._state.evaluations.add((assignment.trial.trial_id, assignment.partition))

    def _end(self, trial: Trial, status: str, why: str) -> None:
        if trial.running:
            self._state.end(trial, status, why)
