"""Assignment of units to workers, and processing of their reports (the scheduler of Cerebro, section 3.4.2).

A unit is the training of a group of trials on one shard, or their evaluation on its validation rows. A trial's
checkpoint has a version, the number of units that it has trained, and a digest, the hash of its content. The worker
that has the checkpoint is the trial's holder. A hop is the transfer of a checkpoint from the holder to another worker.
A trial is suspect if two workers died one after the other, each during a unit of this trial alone. It is urgent if the
user asked to train it before the others. It is blocked if the user paused it, or if it is a clone whose source has to
train the state to copy again.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

from cerebro_spark.hopper._events import Event
from cerebro_spark.hopper._state import Assignment, Start
from optimizer.hopper import Unit
from udfs.hopper import (
    EvaluateUnit,
    JointReport,
    JointUnit,
    Member,
    MemberFailure,
    MemberReport,
    TrainedMember,
    TrainReport,
    TrainUnit,
    UnitFailure,
)
from udfs.rpc import RefusedError

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from cerebro_spark.hopper._groups import Groups
    from cerebro_spark.hopper._liveness import Liveness
    from cerebro_spark.hopper._recovery import Recovery
    from cerebro_spark.hopper._state import Attached, RunState
    from cerebro_spark.hopper._teams import Teams
    from cerebro_spark.hopper._trial import Trial
    from udfs.hopper import EvaluatedMember, EvaluateReport

__all__ = ["Assignments"]


class Assignments:
    """Assignment of units to workers, and processing of their reports. Callers must hold the run's lock."""

    def __init__(self, state: RunState, groups: Groups, liveness: Liveness, recovery: Recovery, teams: Teams) -> None:
        self._state = state
        self._teams = teams
        self._groups = groups
        self._liveness = liveness
        self._recovery = recovery
        self._unit_numbers = itertools.count()

    def assign_next(self, worker: Attached) -> Assignment | None:
        """Assign the next unit to a worker; return ``None`` if the worker has one already, or there is none for it.

        A suspect trial runs only while no other trial does: it may crash the executor, and their units with it. It
        starts once this worker has no other unit to train. If the slowest suspect is an epoch behind the slowest other
        trial, no worker gets a new unit until all are idle.
        """
        state = self._state
        if worker.is_called:
            worker.is_called = False
            return worker.assignment
        if worker.assignment is not None or worker.abort:
            return None
        if any(assignment.alone for assignment in state.assignments):
            return None
        blocked = {trial.trial_id for trial in state.running if trial.is_paused or state.waits(trial)}
        suspects = {trial.trial_id for trial in state.trials if trial.suspect} - blocked
        if not suspects and (trial := self._teams.next_trial(blocked)) is not None:
            evaluation = self._pop_evaluation(worker, blocked)
            if evaluation is None:
                name = f"train {trial.trial_id} epoch {trial.epoch} jointly #{next(self._unit_numbers)}"
                return self._teams.gather(worker, trial, name)
            return self._begin(worker, "evaluate", *evaluation)
        unit = None if self._suspects_are_behind(suspects) else self._pop_unit(worker, suspects | blocked)
        if unit is None and not state.assignments:
            for trial_id in sorted(suspects):
                unit = unit or self._pop_unit(worker, (suspects | blocked) - {trial_id})
        return None if unit is None else self._begin(worker, *unit)

    def build_message(
        self, worker: str, assignment: Assignment, *, drop: tuple[tuple[str, int], ...], holds: tuple[int, ...]
    ) -> TrainUnit | JointUnit | EvaluateUnit:
        """Build the message that sends a unit to its worker.

        ``drop`` has the checkpoints that the worker deletes, as trial id and version; ``holds`` has the numbers of the
        shards that it keeps in memory.
        """
        common: dict[str, Any] = {
            "drop": drop,
            "holds": holds,
            "unit_id": assignment.unit_id,
            "partition": assignment.partition,
            "members": tuple(self._build_member(start, assignment) for start in assignment.starts),
            "loads": assignment.group.loads,
        }
        if assignment.kind == "evaluate":
            return EvaluateUnit(**common)
        if assignment.team is not None:
            team = assignment.team
            return JointUnit(
                **common,
                epoch=assignment.epoch,
                ends_epoch=True,
                mode=team.mode,
                averages=team.averages,
                rank=list(team.shares).index(worker),
                shares=tuple(team.shares.values()),
                configurations=team.configurations,
            )
        return TrainUnit(**common, epoch=assignment.epoch, ends_epoch=self._ends_epoch(assignment))

    def apply_report(self, worker: Attached, report: TrainReport | JointReport | EvaluateReport | UnitFailure) -> None:
        """Apply a worker's report of its unit; ignore the report if the worker has another unit, or none.

        Raises
        ------
        udfs.rpc.RefusedError
            The report is of evaluation instead of training or vice versa, or has other trials than the unit.
        """
        assignment = worker.assignment
        if assignment is None or assignment.unit_id != report.unit_id:
            return
        if assignment.team is not None:
            self._teams.apply_report(worker, assignment, report)
            return
        if isinstance(report, UnitFailure):
            worker.assignment = None
            self._recovery.failed(worker, assignment, report)
            self._groups.regroup(assignment.trials)
            return
        self._apply_members(worker, assignment, report)

    def _begin(self, worker: Attached, kind: str, trials: tuple[Trial, ...], partition: int) -> Assignment:
        state = self._state
        first, number = trials[0], next(self._unit_numbers)
        others = f" and {len(trials) - 1} others" if len(trials) > 1 else ""
        worker.assignment = Assignment(
            unit_id=f"{kind} {first.trial_id}{others} epoch {first.epoch} partition {partition} #{number}",
            kind=kind,
            group=self._groups.group_of(first),
            starts=tuple(map(self._make_start, trials)),
            epoch=first.epoch,
            partition=partition,
            began=state.seconds,
            alone=first.suspect,
        )
        return worker.assignment

    def _ends_epoch(self, assignment: Assignment) -> bool:
        """Return ``True`` if the trials have visited all other shards in this epoch."""
        if assignment.team is not None:
            return True
        return len(assignment.trials[0].done(assignment.epoch)) + 1 == len(self._state.partitions)

    def _make_start(self, trial: Trial) -> Start:
        # A checkpoint that no attached worker holds comes from the store. So does version 0 of a clone (the state of
        # its source) and of a trial that starts from the weights of an earlier run.
        return Start(trial, trial.version, trial.holder not in self._state.workers, trial.holder)

    def _build_member(self, start: Start, assignment: Assignment) -> Member:
        trial = start.trial
        holder = self._state.workers.get(trial.holder or "")
        return Member(
            trial_id=trial.trial_id,
            params=trial.params,
            version=start.version,
            digest=trial.digests[start.version],
            peer=holder.location if holder is not None else "",
            source=None if start.version else self._state.source_state(trial),
            record=trial.record(assignment.epoch) if assignment.kind != "evaluate" else None,
            epoch_metric=self._epoch_metric(start, assignment),
            stores=self._state.stores(trial, assignment.epoch, ends_epoch=self._ends_epoch(assignment)),
        )

    def _epoch_metric(self, start: Start, assignment: Assignment) -> float | None:
        """Return the metric that decides, of the epoch before, for a trial's first unit of an epoch."""
        trial = start.trial
        if assignment.kind == "evaluate" or trial.done(assignment.epoch):
            return None
        history = trial.history
        if not start.version and trial.source is not None and not trial.source.weights_only:
            history = self._state.trial[trial.source.trial_id].history[: trial.source.epoch]
        return history[-1].get(self._state.context.spec.metric) if history else None

    def _apply_members(
        self, worker: Attached, assignment: Assignment, report: TrainReport | JointReport | EvaluateReport
    ) -> None:
        members = _members_by_trial(assignment, report)
        worker.assignment = None
        pairs = [(start, members[start.trial.trial_id]) for start in assignment.starts]
        succeeded = [(start, member) for start, member in pairs if isinstance(member, MemberReport)]
        if succeeded:
            self._liveness.took(assignment)
        events = self._build_events(worker, assignment, succeeded)
        self._state.events += events
        if assignment.kind == "train":
            self._apply_training(worker, assignment, succeeded)
        else:
            self._apply_evaluation(assignment, succeeded)
        for event in events:
            self._state.observer.unit(event)
        for start, member in pairs:
            if isinstance(member, MemberFailure):
                self._recovery.member_failed(worker, assignment, start, member)
        self._recovery.rewind(assignment.trials)
        self._groups.regroup(assignment.trials)

    def _apply_training(
        self, worker: Attached, assignment: Assignment, succeeded: Sequence[tuple[Start, MemberReport]]
    ) -> None:
        state, unit = self._state, Unit(assignment.group.group_id, assignment.partition)
        for start, member in succeeded:
            if isinstance(member, TrainedMember):
                previous_holder = start.trial.holder
                start.trial.trained(assignment.epoch, [assignment.partition], worker.name, member)
                state.hopped(start.trial, previous_holder, start.version)
                state.want_evaluation(start.trial)
        if succeeded:
            # The scheduler learns unit times, which must be positive.
            state.hopper.finish(unit, max(sum(member.seconds for _, member in succeeded), 1e-6))
        else:
            state.hopper.fail(unit)

    @staticmethod
    def _apply_evaluation(assignment: Assignment, succeeded: Sequence[tuple[Start, MemberReport]]) -> None:
        for start, member in succeeded:
            if start.trial.running and start.version == start.trial.version:
                start.trial.was_evaluated(assignment.partition, member.sums)

    def _build_events(
        self, worker: Attached, assignment: Assignment, succeeded: Sequence[tuple[Start, MemberReport]]
    ) -> list[Event]:
        """Build an event for each trial of a unit.

        The events divide the time from the unit's start until now, in proportion to the reported seconds of the trials.
        """
        ended = self._state.seconds
        total = sum(member.seconds for _, member in succeeded)
        events: list[Event] = []
        elapsed = 0.0
        for place, (start, member) in enumerate(succeeded, 1):
            elapsed += member.seconds
            is_last = place == len(succeeded) or not total
            events.append(
                Event(
                    kind=assignment.kind,
                    trial_id=start.trial.trial_id,
                    worker=worker.name,
                    epoch=assignment.epoch,
                    partition=assignment.partition,
                    began=events[-1].ended if events else assignment.began,
                    ended=ended if is_last else assignment.began + (ended - assignment.began) * elapsed / total,
                    seconds=member.seconds,
                    fetched_bytes=member.fetched_bytes,
                    from_store=member.fetched_bytes > 0 and start.from_store,
                    members=len(succeeded),
                    waited_seconds=member.waited_seconds,
                    frozen_seconds=member.frozen_seconds,
                    read_seconds=member.read_seconds,
                    read_bytes=member.read_bytes,
                    remade=member.remade,
                )
            )
        return events

    def _suspects_are_behind(self, suspects: Collection[str]) -> bool:
        """Return ``True`` if the slowest suspect trial is in an earlier epoch than the slowest other trial."""
        epochs = {trial.trial_id: trial.epoch for trial in self._state.running}
        suspect_epochs = [epochs[trial_id] for trial_id in suspects]
        other_epochs = [epoch for trial_id, epoch in epochs.items() if trial_id not in suspects]
        return bool(suspect_epochs) and bool(other_epochs) and min(suspect_epochs) < min(other_epochs)

    def _pop_unit(self, worker: Attached, excluded: Collection[str]) -> tuple[str, tuple[Trial, ...], int] | None:
        """Remove the next unit of a worker and return its kind, trials and partition, without the excluded trials.

        Evaluations come first: they are short, and a trial that waits for them falls behind the others.
        """
        state = self._state
        evaluation = self._pop_evaluation(worker, excluded)
        if evaluation is not None:
            return "evaluate", *evaluation
        # A group's id is the id of its first trial, which stands for the group in the scheduler (``state.hopper``).
        excluded_ids = {self._groups.group_of(state.trial[trial_id]).group_id for trial_id in excluded}
        urgent_ids = {self._groups.group_of(trial).group_id for trial in state.running if trial.urgent}
        unit = None
        if urgent_ids:
            unit = state.hopper.next_unit(worker.name, without=excluded_ids | (state.trial.keys() - urgent_ids))
        unit = unit or state.hopper.next_unit(worker.name, without=excluded_ids)
        return None if unit is None else ("train", self._groups.members_with(state.trial[unit.config]), unit.partition)

    def _pop_evaluation(self, worker: Attached, excluded: Collection[str]) -> tuple[tuple[Trial, ...], int] | None:
        """Remove an evaluation on a shard of the worker, and return its trials and partition.

        Trials whose checkpoint the worker has come before those that need a hop. The evaluation includes all trials of
        the group that are to be evaluated on the shard.
        """
        state = self._state
        ready = sorted(
            (trial_id, partition)
            for trial_id, partition in state.evaluations
            if partition in state.holdings[worker.name]
            and state.reachable(state.trial[trial_id])
            and trial_id not in excluded
        )
        if not ready:
            return None
        trial_id, partition = min(ready, key=lambda pair: state.trial[pair[0]].holder != worker.name)
        ready_ids = {ready_id for ready_id, ready_partition in ready if ready_partition == partition}
        members = self._groups.members_with(state.trial[trial_id])
        trials = tuple(trial for trial in members if trial.trial_id in ready_ids)
        state.evaluations -= {(trial.trial_id, partition) for trial in trials}
        return trials, partition


def _members_by_trial(
    assignment: Assignment, report: TrainReport | JointReport | EvaluateReport
) -> dict[str, TrainedMember | EvaluatedMember | MemberFailure]:
    """Return the members of a report by trial id, after a check that they are the trials of the unit."""
    is_training = assignment.kind == "train"
    if isinstance(report, JointReport) or isinstance(report, TrainReport) != is_training:
        expected = "a TrainReport" if is_training else "an EvaluateReport"
        raise RefusedError(f"report must be {expected} of {assignment.unit_id}, got {type(report).__name__}.")
    members = {member.trial_id: member for member in report.members}
    trial_ids = [trial.trial_id for trial in assignment.trials]
    if sorted(member.trial_id for member in report.members) != sorted(trial_ids):
        raise RefusedError(
            f"report of {assignment.unit_id} must have the trials {', '.join(trial_ids)}, got "
            f"{', '.join(members) or 'none'}."
        )
    return members
