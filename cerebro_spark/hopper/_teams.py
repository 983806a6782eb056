"""Teams of workers that train an epoch of one trial together, while fewer trials are left than workers."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

from cerebro_spark.hopper._events import Event
from cerebro_spark.hopper._grouping import Singles
from cerebro_spark.hopper._state import Assignment, Start, Team
from optimizer.hybrids import HybridSettings, balance_shards, plan_hybrid
from udfs.hopper import Acknowledged, Apart, JointReport, Met, UnitFailure
from udfs.rpc import RefusedError

if TYPE_CHECKING:
    from collections.abc import Collection

    from cerebro_spark.hopper._groups import Groups
    from cerebro_spark.hopper._liveness import Liveness
    from cerebro_spark.hopper._recovery import Recovery
    from cerebro_spark.hopper._state import Attached, RunState
    from cerebro_spark.hopper._trial import Trial
    from optimizer.hybrids import Measured
    from udfs.hopper import EvaluateReport, Meet, TrainReport

__all__ = ["Teams"]

_LOG = logging.getLogger(__name__)

# How long a rank waits at the driver for the others; short of the caller's own patience.
_POLL_S = 10.0

# Seconds in which the ranks of a team that lost one report; the processes of those that do not are ended.
_REPORT_S = 8.0


class Teams:
    """Formation of teams, their meetings, and their reports. Callers must hold the run's lock.

    A trial that begins an epoch while fewer trials train than workers waits until all of them are idle. Each of them
    then gets the same unit, with its shards. A team that loses a worker comes to nothing, and the trial trains that
    epoch by hopping.
    """

    def __init__(self, state: RunState, groups: Groups, liveness: Liveness, recovery: Recovery) -> None:
        context = state.context
        self._state = state
        self._groups = groups
        self._liveness = liveness
        self._recovery = recovery
        self._settings = HybridSettings.from_dict(context.spec.hybrid)
        is_plain = isinstance(context.grouping, Singles) and context.adaptation is None and context.recorded is None
        self._off = self._settings.mode == "off" or not is_plain
        self._measured: dict[str, Measured] = {}
        # Trials that no team can train, by the reason.
        self._refused: dict[str, str] = {}

    def next_trial(self, blocked: Collection[str]) -> Trial | None:
        """Return the trial that the next team is to train; ``None`` if there is none."""
        state = self._state
        # Workers of several runs take turns, and would wait for each other.
        if self._off or state.shared:
            return None
        busy = {trial.trial_id for assignment in state.assignments for trial in assignment.trials}
        for trial in sorted(state.running, key=lambda trial: (not trial.urgent, trial.epoch)):
            name = trial.trial_id
            enters = state.entered.get(name) == trial.epoch and not trial.done(trial.epoch)
            free = name not in busy and name not in blocked and name not in state.closing and state.reachable(trial)
            if enters and free and trial.epoch < trial.granted and self._mode(trial) != "hop":
                return trial
        return None

    def gather(self, worker: Attached, trial: Trial, unit_id: str) -> Assignment | None:
        """Return the worker's unit in a team, or ``None`` while it waits for the others."""
        state, shares = self._state, self._shares()
        workers = [state.workers[name] for name in shares]
        if not shares or not all(each is worker or (each.is_waiting and not each.assignment) for each in workers):
            worker.is_waiting = True
            return None
        modes = self._settings.modes(trial.epoch)
        team = Team(unit_id, trial, trial.epoch, self._mode(trial), "averaging" in modes, shares, self._left())
        state.hopper.enter(trial.trial_id, trial.epoch, state.partitions)  # none of them is left to hop to
        for each in workers:
            start = Start(trial, trial.version, trial.holder not in state.workers, trial.holder)
            partition = shares[each.name][0]
            each.assignment = Assignment(
                unit_id,
                "joint",
                self._groups.group_of(trial),
                (start,),
                trial.epoch,
                partition,
                state.seconds,
                False,
                team,
            )
            each.is_called, each.is_waiting = each is not worker, False
        state.changed.notify_all()
        return worker.assignment

    def meet(self, worker: Attached | None, request: Meet) -> Met | Apart | Acknowledged:
        """Reply to a rank once all have sent their messages, the team has come to nothing, or some seconds are over."""
        state, until = self._state, time.monotonic() + _POLL_S
        while True:
            assignment = worker.assignment if worker is not None else None
            team = assignment.team if assignment is not None else None
            if team is None or team.unit_id != request.unit_id or state.over:
                return Apart("the unit is over")
            if team.reason:
                return Apart(team.reason)
            if request.message and request.worker not in team.messages:
                team.messages[request.worker] = request.message
                state.changed.notify_all()
            if request.message and len(team.messages) == len(team.shares):
                return Met(tuple(team.messages[name] for name in team.shares))
            remaining = until - time.monotonic()
            if remaining <= 0:
                return Acknowledged()
            state.changed.wait(remaining)

    def apply_report(
        self, worker: Attached, assignment: Assignment, report: TrainReport | JointReport | EvaluateReport | UnitFailure
    ) -> None:
        """Apply a rank's report of its share.

        Raises
        ------
        udfs.rpc.RefusedError
            The report is of another kind of unit.
        """
        if isinstance(report, UnitFailure):
            self._fail(worker, assignment, report)
        elif isinstance(report, JointReport):
            self._apply(worker, assignment, report)
        else:
            raise RefusedError(f"report must be a JointReport of {assignment.unit_id}, got {type(report).__name__}.")

    def abort_late(self) -> None:
        """End the processes of ranks that do not notice that their team has come to nothing."""
        for worker in self._state.workers.values():
            team = worker.assignment.team if worker.assignment is not None else None
            if team is not None and team.reason and time.monotonic() - team.failed_at > _REPORT_S and not worker.abort:
                _LOG.warning("%s does not end on %s, whose process is ended", team.unit_id, worker.name)
                worker.abort = True

    def _apply(self, worker: Attached, assignment: Assignment, report: JointReport) -> None:
        """Apply the report of a rank that has trained, or declines to."""
        state, team = self._state, assignment.team
        assert team is not None  # the caller looks
        (start,) = assignment.starts
        trial, worker.assignment = start.trial, None
        if report.measured is not None:
            self._measured[trial.trial_id] = report.measured
        if report.declined:
            _LOG.info("%s trains by hopping: %s", trial.trial_id, report.declined)
            if team.fail(report.declined) and report.measured is None and trial.trial_id not in self._measured:
                self._refused[trial.trial_id] = report.declined
        elif report.trained is not None:
            team.is_done = True
            if trial.running:
                holder = trial.holder
                trial.trained(team.epoch, sorted(state.partitions), worker.name, report.trained)
                state.hopped(trial, holder, start.version)
                state.want_evaluation(trial)
            self._liveness.took(assignment)
        else:
            trial.seconds += report.seconds
        if not report.declined:
            self._add_events(worker, assignment, report)
        self._recovery.release(team)

    def _fail(self, worker: Attached, assignment: Assignment, failure: UnitFailure) -> None:
        """Mark a team as failed because a rank failed, and end the trial if that was the user's error."""
        team = assignment.team
        assert team is not None  # the caller looks
        worker.assignment = None
        team.fail(f"a worker failed: {failure.traceback.strip().splitlines()[-1] if failure.traceback else ''}")
        if failure.reason != "team" and not team.is_done:
            self._recovery.member_failed(worker, assignment, assignment.starts[0], failure)
        self._recovery.release(team)

    def _left(self) -> int:
        """Count the trials that are left to train, at present."""
        return sum(trial.epoch < trial.granted and not trial.is_paused for trial in self._state.running)

    def _shares(self) -> dict[str, tuple[int, ...]]:
        """Return the shards of each worker in a team, ``{}`` while some are with a worker that is not attached."""
        state = self._state
        holders = {name: state.holdings[name] for name in state.workers}
        shares = balance_shards(holders, dict.fromkeys(state.partitions, 1) | state.context.train_rows)
        return shares if sum(map(len, shares.values())) == len(state.partitions) else {}

    def _mode(self, trial: Trial) -> str:
        """Return the way to train a trial's epoch: ``"hop"``, a hybrid, or ``"auto"`` if it is to be measured."""
        state = self._state
        workers = len(self._shares()) if state.holdings.complete else len(state.context.first_shares)
        configurations = self._left()
        if workers < 2 or configurations >= workers:
            return "hop"
        if trial.trial_id in self._refused or trial.epoch in trial.hopping:
            return "hop"
        modes = self._settings.modes(trial.epoch)
        if len(modes) == 1:
            return modes[0]
        measured = self._measured.get(trial.trial_id)
        if measured is None:
            return "auto"
        return plan_hybrid(
            measured,
            configurations=configurations,
            workers=workers,
            rows=sum(state.context.train_rows.values()),
            partitions=len(state.partitions),
            averages="averaging" in modes,
        ).mode

    def _add_events(self, worker: Attached, assignment: Assignment, report: JointReport) -> None:
        """Add an event for each shard of a rank, which divide its time in proportion to the rows."""
        state, team = self._state, assignment.team
        assert team is not None
        shares, rows = team.shares[worker.name], state.context.train_rows
        total = sum(rows[partition] for partition in shares)
        span, began = state.seconds - assignment.began, assignment.began
        for place, partition in enumerate(shares):
            share = rows[partition] / total
            event = Event(
                kind="train",
                trial_id=team.trial.trial_id,
                worker=worker.name,
                epoch=team.epoch,
                partition=partition,
                began=began,
                ended=began + span * share,
                seconds=report.seconds * share,
                fetched_bytes=report.fetched_bytes if not place else 0,
                from_store=bool(report.fetched_bytes) and not place and assignment.starts[0].from_store,
                ranks=len(team.shares),
                exchanged_bytes=report.exchanged_bytes * share,
            )
            began = event.ended
            state.events.append(event)
            state.observer.unit(event)
