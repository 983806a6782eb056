"""Recovery from lost workers: states are trained again, and shards go to others (Cerebro, section 3.5.6)."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

from cerebro_spark.hopper._events import Loss
from cerebro_spark.hopper._trial import Death
from optimizer.hopper import Unit

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cerebro_spark.hopper._groups import Groups
    from cerebro_spark.hopper._state import Assignment, Attached, RunState, Start, Team
    from cerebro_spark.hopper._trial import Trial
    from udfs.hopper import MemberFailure, UnitFailure

__all__ = ["Recovery"]

_LOG = logging.getLogger(__name__)

# Number of consecutive failed tries after which a checkpoint in the store is considered damaged.
_TRIES = 3


class Recovery:
    """Handles lost workers and failed units. Its callers hold the run's lock."""

    def __init__(self, state: RunState, groups: Groups) -> None:
        self._state = state
        self._groups = groups
        self._rejoin_s = state.context.backend.rejoin_s

    def lose(self, name: str, why: str, *, interrupted: bool = False) -> None:
        """Detach a worker, and give back its unit and the checkpoints that it alone had.

        With ``interrupted`` its machine was reclaimed: no trial is to blame, and its process ends by itself.
        """
        state = self._state
        worker = state.workers.pop(name, None)
        if worker is None:
            return
        if not interrupted:
            state.dismissed.add(worker.attempt)
        state.holdings.detach(name, time.monotonic())
        loss = Loss(state.seconds, name, worker.host, why)
        state.losses.append(loss)
        state.observer.worker_lost(loss)
        _LOG.warning("lost worker %s on %s: %s", name, worker.host, why)
        state.hopper.lose(name)
        if worker.assignment is not None:
            self._give_back(name, worker.assignment, why, interrupted=interrupted or worker.is_reclaimed)
        for trial in state.trials:
            if trial.holder == name:
                trial.holder = None
            if trial.copy is not None and trial.copy.worker == name:
                trial.copy = None
        # Also trials whose holder was lost before, while this worker may have had their checkpoints.
        self.rewind(state.trials)
        if worker.assignment is not None and worker.assignment.team is not None:
            self.release(worker.assignment.team)
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
        """Try a unit again whose data were out of reach, or whose group was too much; end the trial of any other."""
        if assignment.kind == "train":
            self._state.hopper.fail(Unit(assignment.group.group_id, assignment.partition))
        if failure.reason != "hop" and len(assignment.starts) > 1:
            _LOG.warning("%s %s on %s:\n%s", assignment.unit_id, failure.reason, worker.name, failure.traceback)
            self._evaluate_again(assignment, assignment.trials)
            self._groups.split(assignment.trials, failure.reason)
            return
        for start in assignment.starts:
            self.member_failed(worker, assignment, start, failure)

    def member_failed(
        self, worker: Attached, assignment: Assignment, start: Start, failure: UnitFailure | MemberFailure
    ) -> None:
        """Try a unit again for a trial whose checkpoint was out of reach or that lacked memory; end any other trial."""
        trial = start.trial
        if failure.reason != "hop":
            _LOG.warning("%s %s on %s:\n%s", trial.trial_id, failure.reason, worker.name, failure.traceback)
            if failure.reason == "out of memory" and len(assignment.starts) > 1:
                # The others had most of it, maybe.
                self._evaluate_again(assignment, [trial])
                self._groups.split(assignment.trials, failure.reason)
                return
            self._end(trial, failure.reason, failure.traceback)
            return
        _LOG.warning("%s did not get the checkpoint of %s: %s", assignment.unit_id, trial.trial_id, failure.traceback)
        if trial.holder not in self._state.workers or trial.holder == start.peer:
            trial.holder = None
        if start.from_store:
            trial.unreadable += 1
            if trial.unreadable >= _TRIES and not start.version:
                self._end(trial, "failed", self._no_beginning(trial, failure.traceback))
                return
            if trial.unreadable >= _TRIES:
                trial.forget_durable()
                trial.unreadable = 0
                _LOG.warning("%s goes back to its checkpoint after %d units", trial.trial_id, trial.durable_version)
        self._evaluate_again(assignment, [trial])
        self.rewind([trial])

    def release(self, team: Team) -> None:
        """Let a trial hop in an epoch in which its team came to nothing, once no worker has the unit any more."""
        trial = team.trial
        if any(assignment.team is team for assignment in self._state.assignments):
            return
        if not team.is_done:
            trial.hopping.add(team.epoch)
        if trial.running:
            self.rewind([trial])
            self._groups.regroup([trial], again=() if team.is_done else {trial.trial_id})

    def rewind(self, trials: Iterable[Trial]) -> None:
        """Take trials back to a copy or to their checkpoints in the store, where the last ones are lost for sure."""
        state = self._state
        # A worker that has one in a unit may have the checkpoint, or will say that it has not.
        busy = {trial.trial_id for assignment in state.assignments for trial in assignment.trials}
        # Of one whose results are being written, the epoch counts; it goes back afterwards.
        busy |= state.closing
        again = []
        for trial in trials:
            if state.reachable(trial) or not trial.running or trial.trial_id in busy:
                continue
            state.cancel_evaluation(trial)
            lost = trial.rewind()
            state.redone += lost
            if lost:
                again.append(trial)
        if again:
            self._groups.go_back(again)

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
        open_losses = {
            (name, death.loss)
            for trial in state.running
            if not trial.suspect
            for death in trial.deaths
            if death.worker == name
        }
        return len(open_losses | {blamed for blamed in state.blamed if blamed[0] == name})

    def _give_back(self, name: str, assignment: Assignment, why: str, *, interrupted: bool) -> None:
        # Of a team, the first loss counts: the others wait for each other, and may be ended for it.
        if assignment.team is not None and not assignment.team.fail(f"worker {name} is lost: {why}"):
            return
        self._state.redone += len(assignment.starts)
        if interrupted:
            self._evaluate_again(assignment, assignment.trials)
            return
        together = len(assignment.starts) > 1
        trained = assignment.kind != "evaluate"
        death = Death(name, None if trained else assignment.partition, len(self._state.losses), together)
        for trial in assignment.trials:
            if trial.running:
                self._note(trial, death, assignment, why)
        if together:
            # Any of them may be the reason, or all: each is tried by itself, before one is blamed.
            self._groups.split(assignment.trials, why)

    def _note(self, trial: Trial, death: Death, assignment: Assignment, why: str) -> None:
        """Record the loss of a worker with a trial, and end a trial that ran alone."""
        was_suspect = trial.suspect
        trial.deaths.append(death)
        if trial.suspect:
            self._state.blamed |= {(each.worker, each.loss) for each in trial.deaths}
        if assignment.alone:
            doing = "training" if death.evaluated is None else "evaluating"
            text = (
                f"its worker died {len(trial.deaths)} times while {doing} it, the last time with no other trial running"
            )
            self._end(trial, "failed", f"{text}: {why}")
            return
        if trial.suspect and not was_suspect:
            _LOG.warning("%s took %d workers with it and is tried alone", trial.trial_id, len(trial.deaths))
            self._groups.regroup([trial])
        self._evaluate_again(assignment, [trial])

    @staticmethod
    def _no_beginning(trial: Trial, why: str) -> str:
        source = trial.source
        if source is None:
            return (
                "the weights of an earlier run that it begins with are damaged or missing (warm_start=False begins "
                f"with initial ones): {why}"
            )
        kind = "child" if source.weights_only else "clone"
        return (
            f"it is a {kind} of {source.trial_id} after epoch {source.epoch}, whose state is damaged or missing: {why}"
        )

    def _evaluate_again(self, assignment: Assignment, trials: Iterable[Trial]) -> None:
        if assignment.kind == "evaluate":
            self._state.evaluations |= {(trial.trial_id, assignment.partition) for trial in trials if trial.running}

    def _end(self, trial: Trial, status: str, why: str) -> None:
        if trial.running:
            self._groups.end(trial, status, why)
