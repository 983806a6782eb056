"""Assignment of units to workers, and receipt of their reports (Cerebro, section 3.4.2, the scheduler)."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

from cerebro_spark.hopper._events import Event
from cerebro_spark.hopper._state import Assignment, Start
from optimizer.hopper import Unit
from udfs.hopper import (
    EvaluateUnit,
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
    from cerebro_spark.hopper._trial import Trial
    from udfs.hopper import EvaluatedMember, EvaluateReport

__all__ = ["Assignments"]


class Assignments:
    """Assignment of units to workers, and receipt of their reports. Its callers hold the run's lock."""

    def __init__(self, state: RunState, groups: Groups, liveness: Liveness, recovery: Recovery) -> None:
        self._state = state
        self._groups = groups
        self._liveness = liveness
        self._recovery = recovery
        self._numbers = itertools.count()

    def take(self, worker: Attached) -> Assignment | None:
        """Assign the next unit to a worker; ``None`` if it has one, or there is none for it.

        A suspect trial waits until no worker has anything else to do, or until all others are an epoch ahead, and is
        then the only one that runs: on a cluster its end may be that of the whole executor.
        """
        state = self._state
        if worker.assignment is not None or worker.abort:
            return None
        if any(assignment.alone for assignment in state.assignments):
            return None
        resting = {trial.trial_id for trial in state.running if trial.is_paused or state.waits(trial)}
        suspects = {trial.trial_id for trial in state.trials if trial.suspect} - resting
        choice = None if self._is_their_turn(suspects) else self._choose(worker, suspects | resting)
        if choice is None and not state.assignments:
            for trial_id in sorted(suspects):
                choice = choice or self._choose(worker, (suspects | resting) - {trial_id})
        if choice is None:
            return None
        kind, trials, partition = choice
        first = trials[0]
        others = f" and {len(trials) - 1} others" if len(trials) > 1 else ""
        worker.assignment = Assignment(
            unit_id=f"{kind} {first.trial_id}{others} epoch {first.epoch} partition {partition} #{next(self._numbers)}",
            kind=kind,
            group=self._groups.group_of(first),
            starts=tuple(map(self._start, trials)),
            epoch=first.epoch,
            partition=partition,
            began=state.seconds,
            alone=first.suspect,
        )
        return worker.assignment

    def describe(
        self, assignment: Assignment, *, drop: tuple[tuple[str, int], ...], holds: tuple[int, ...]
    ) -> TrainUnit | EvaluateUnit:
        """Describe a worker's unit to it, with the checkpoints and shards that it keeps meanwhile."""
        common: dict[str, Any] = {
            "drop": drop,
            "holds": holds,
            "unit_id": assignment.unit_id,
            "partition": assignment.partition,
            "members": tuple(self._member(start, assignment) for start in assignment.starts),
            "loads": assignment.group.loads,
        }
        if assignment.kind == "evaluate":
            return EvaluateUnit(**common)
        return TrainUnit(**common, epoch=assignment.epoch, ends_epoch=self._ends_epoch(assignment))

    def report(self, worker: Attached, report: TrainReport | EvaluateReport | UnitFailure) -> None:
        """Take the report of a worker's unit; that of another unit is ignored.

        Raises
        ------
        udfs.rpc.RefusedError
            The unit is of the other kind, or has other members.
        """
        assignment = worker.assignment
        if assignment is None or assignment.unit_id != report.unit_id:
            return
        if isinstance(report, UnitFailure):
            worker.assignment = None
            self._recovery.failed(worker, assignment, report)
            self._groups.regroup(assignment.trials)
            return
        members = _of_each_trial(assignment, report)
        worker.assignment = None
        pairs = [(start, members[start.trial.trial_id]) for start in assignment.starts]
        done = [(start, member) for start, member in pairs if isinstance(member, MemberReport)]
        if done:
            self._liveness.took(assignment)
        events = self._events(worker, assignment, done)
        self._state.events += events
        if assignment.kind == "train":
            self._trained(worker, assignment, done)
        else:
            self._evaluated(assignment, done)
        for event in events:
            self._state.observer.unit(event)
        for start, member in pairs:
            if isinstance(member, MemberFailure):
                self._recovery.member_failed(worker, assignment, start, member)
        self._recovery.rewind(assignment.trials)
        self._groups.regroup(assignment.trials)

    def _ends_epoch(self, assignment: Assignment) -> bool:
        return len(assignment.trials[0].done(assignment.epoch)) + 1 == len(self._state.partitions)

    def _start(self, trial: Trial) -> Start:
        # No worker has version 0: a clone's source, or the weights of an earlier run, are in the store.
        return Start(trial, trial.version, trial.holder not in self._state.workers, trial.holder)

    def _member(self, start: Start, assignment: Assignment) -> Member:
        trial = start.trial
        holder = self._state.workers.get(trial.holder or "")
        return Member(
            trial_id=trial.trial_id,
            params=trial.params,
            version=start.version,
            digest=trial.digests[start.version],
            peer=holder.location if holder is not None else "",
            source=None if start.version else self._state.source_state(trial),
            record=trial.record(assignment.epoch) if assignment.kind == "train" else None,
            stores=self._state.stores(trial, assignment.epoch, ends_epoch=self._ends_epoch(assignment)),
        )

    def _trained(self, worker: Attached, assignment: Assignment, done: Sequence[tuple[Start, MemberReport]]) -> None:
        state, unit = self._state, Unit(assignment.group.group_id, assignment.partition)
        for start, member in done:
            if isinstance(member, TrainedMember):
                before = start.trial.holder
                start.trial.trained(assignment.epoch, assignment.partition, worker.name, member)
                state.hopped(start.trial, before, start.version)
                state.want_evaluation(start.trial)
        if done:
            state.hopper.finish(unit, max(sum(member.seconds for _, member in done), 1e-6))
        else:
            state.hopper.fail(unit)

    @staticmethod
    def _evaluated(assignment: Assignment, done: Sequence[tuple[Start, MemberReport]]) -> None:
        for start, member in done:
            if start.trial.running and start.version == start.trial.version:
                start.trial.was_evaluated(assignment.partition, member.sums)

    def _events(
        self, worker: Attached, assignment: Assignment, done: Sequence[tuple[Start, MemberReport]]
    ) -> list[Event]:
        """Make an event of each trial of a unit: its slice of the unit's time is its share of the seconds."""
        ended = self._state.seconds
        total = sum(member.seconds for _, member in done)
        events: list[Event] = []
        until = 0.0
        for place, (start, member) in enumerate(done, 1):
            until += member.seconds
            last = place == len(done) or not total
            events.append(
                Event(
                    kind=assignment.kind,
                    trial_id=start.trial.trial_id,
                    worker=worker.name,
                    epoch=assignment.epoch,
                    partition=assignment.partition,
                    began=events[-1].ended if events else assignment.began,
                    ended=ended if last else assignment.began + (ended - assignment.began) * until / total,
                    seconds=member.seconds,
                    fetched_bytes=member.fetched_bytes,
                    from_store=member.fetched_bytes > 0 and start.from_store,
                    members=len(done),
                    waited_seconds=member.waited_seconds,
                    frozen_seconds=member.frozen_seconds,
                    read_seconds=member.read_seconds,
                    read_bytes=member.read_bytes,
                    remade=member.remade,
                )
            )
        return events

    def _is_their_turn(self, suspects: Collection[str]) -> bool:
        """Return ``True`` if every suspect trial's peers are an epoch ahead of it, so that they wait for it."""
        epochs = {trial.trial_id: trial.epoch for trial in self._state.running}
        behind = [epochs[trial_id] for trial_id in suspects]
        others = [epoch for trial_id, epoch in epochs.items() if trial_id not in suspects]
        return bool(behind) and bool(others) and min(behind) < min(others)

    def _choose(self, worker: Attached, without: Collection[str]) -> tuple[str, tuple[Trial, ...], int] | None:
        """Remove and give a unit, as its kind, its trials and its partition, for none of some trials.

        Evaluations come first: they are short, and a trial that waits for them falls behind the others.
        """
        state = self._state
        evaluation = self._evaluation(worker, without)
        if evaluation is not None:
            return "evaluate", *evaluation
        hidden = {self._groups.group_of(state.trial[trial_id]).group_id for trial_id in without}
        urgent = {self._groups.group_of(trial).group_id for trial in state.running if trial.urgent}
        unit = (
            state.hopper.next_unit(worker.name, without={*hidden, *(state.trial.keys() - urgent)}) if urgent else None
        )
        unit = unit or state.hopper.next_unit(worker.name, without=hidden)
        return None if unit is None else ("train", self._groups.mates(state.trial[unit.config]), unit.partition)

    def _evaluation(self, worker: Attached, without: Collection[str]) -> tuple[tuple[Trial, ...], int] | None:
        """Remove and give an evaluation that a worker has the shard for, one that costs no hop before others.

        All trials of a group that have not been evaluated on the shard are, at once.
        """
        state = self._state
        ready = sorted(
            (trial_id, partition)
            for trial_id, partition in state.evaluations
            if partition in state.holdings[worker.name]
            and state.reachable(state.trial[trial_id])
            and trial_id not in without
        )
        if not ready:
            return None
        trial_id, partition = min(ready, key=lambda pair: state.trial[pair[0]].holder != worker.name)
        of_shard = {name for name, at in ready if at == partition}
        together = tuple(mate for mate in self._groups.mates(state.trial[trial_id]) if mate.trial_id in of_shard)
        state.evaluations -= {(mate.trial_id, partition) for mate in together}
        return together, partition


def _of_each_trial(
    assignment: Assignment, report: TrainReport | EvaluateReport
) -> dict[str, TrainedMember | EvaluatedMember | MemberFailure]:
    """Return the report's members by trial, after a check that they are those of the unit."""
    if isinstance(report, TrainReport) != (assignment.kind == "train"):
        raise RefusedError(f"a {type(report).__name__} of {assignment.unit_id}")
    members = {member.trial_id: member for member in report.members}
    if len(report.members) > len(members) or members.keys() != {trial.trial_id for trial in assignment.trials}:
        raise RefusedError(f"a report of {', '.join(members) or 'no trial'} for {assignment.unit_id}")
    return members
