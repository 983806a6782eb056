"""Assignment: gives units to workers that ask, and takes their reports (Cerebro, section 3.4.2, the scheduler)."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

from cerebro_spark.hopper._events import Event
from cerebro_spark.hopper._state import Assignment
from optimizer.hopper import Unit
from udfs.hopper import EvaluateUnit, TrainReport, TrainUnit, UnitFailure
from udfs.rpc import RefusedError

if TYPE_CHECKING:
    from collections.abc import Collection

    from cerebro_spark.hopper._liveness import Liveness
    from cerebro_spark.hopper._recovery import Recovery
    from cerebro_spark.hopper._state import Attached, RunState
    from cerebro_spark.hopper._trial import Trial
    from udfs.hopper import EvaluateReport

__all__ = ["Assignments"]


class Assignments:
    """Gives out units and takes reports. Its callers hold the run's lock.

    Parameters
    ----------
    state : RunState
    liveness : Liveness
        Hears how long units take.
    recovery : Recovery
        Handles units that failed.
    """

    def __init__(self, state: RunState, liveness: Liveness, recovery: Recovery) -> None:
        self._state = state
        self._liveness = liveness
        self._recovery = recovery
        self._numbers = itertools.count()

    def take(self, worker: Attached) -> Assignment | None:
        """Give a worker the next unit; ``None`` where it has one, or there is none for it.

        A suspect trial waits until nobody has anything else to do, or until all others are an epoch ahead, and is then
        the only one that runs: on a cluster its end may be that of the whole executor.
        """
        state = self._state
        if worker.assignment is not None or worker.abort:
            return None
        if any(assignment.alone for assignment in state.assignments):
            return None
        resting = {trial.trial_id for trial in state.running if trial.held or state.waits(trial)}
        suspects = {trial.trial_id for trial in state.trials if trial.suspect} - resting
        choice = None if self._is_their_turn(suspects) else self._choose(worker, suspects | resting)
        if choice is None and not state.assignments:
            for trial_id in sorted(suspects):
                choice = choice or self._choose(worker, (suspects | resting) - {trial_id})
        if choice is None:
            return None
        kind, trial, partition = choice
        worker.assignment = Assignment(
            unit_id=f"{kind} {trial.trial_id} epoch {trial.epoch} partition {partition} #{next(self._numbers)}",
            kind=kind,
            trial=trial,
            epoch=trial.epoch,
            partition=partition,
            version=trial.version,
            began=state.seconds,
            from_store=trial.holder not in state.workers if trial.version else trial.source is not None,
            peer=trial.holder,
            alone=trial.suspect,
        )
        return worker.assignment

    def describe(
        self, assignment: Assignment, *, drop: tuple[tuple[str, int], ...], holds: tuple[int, ...]
    ) -> TrainUnit | EvaluateUnit:
        """Tell a worker what its unit is, and which checkpoints and shards it keeps meanwhile."""
        trial = assignment.trial
        holder = self._state.workers.get(trial.holder or "")
        common: dict[str, Any] = {
            "drop": drop,
            "holds": holds,
            "unit_id": assignment.unit_id,
            "trial_id": trial.trial_id,
            "params": trial.params,
            "partition": assignment.partition,
            "version": assignment.version,
            "digest": trial.digests[assignment.version],
            "peer": holder.location if holder is not None else "",
            "source": None if assignment.version else self._state.source_state(trial),
        }
        if assignment.kind == "evaluate":
            return EvaluateUnit(**common)
        ends_epoch = len(trial.done(assignment.epoch)) + 1 == len(self._state.partitions)
        record = trial.record(assignment.epoch)
        return TrainUnit(**common, epoch=assignment.epoch, ends_epoch=ends_epoch, record=record)

    def report(self, worker: Attached, report: TrainReport | EvaluateReport | UnitFailure) -> None:
        """Take the report of a worker's unit; that of another unit is ignored.

        Raises
        ------
        udfs.rpc.RefusedError
            The unit is of the other kind.
        """
        assignment = worker.assignment
        if assignment is None or assignment.unit_id != report.unit_id:
            return
        if isinstance(report, UnitFailure):
            worker.assignment = None
            self._recovery.failed(worker, assignment, report)
            return
        if isinstance(report, TrainReport) != (assignment.kind == "train"):
            raise RefusedError(f"a {type(report).__name__} of {assignment.unit_id}")
        worker.assignment = None
        event = self._event(worker, assignment, report)
        self._state.events.append(event)
        self._liveness.took(assignment)
        trial = assignment.trial
        if isinstance(report, TrainReport):
            self._trained(worker, assignment, report)
        elif trial.running and assignment.version == trial.version:
            trial.was_evaluated(assignment.partition, report.sums)
        self._state.observer.unit(event)
        self._recovery.rewind(trial)

    def _trained(self, worker: Attached, assignment: Assignment, report: TrainReport) -> None:
        state, trial = self._state, assignment.trial
        before = trial.holder
        trial.trained(assignment.epoch, assignment.partition, worker.name, report)
        if before is not None and before != worker.name and before in state.workers:
            state.workers[before].drop.append((trial.trial_id, assignment.version))
        state.hopper.finish(Unit(trial.trial_id, assignment.partition), max(report.seconds, 1e-6))
        state.want_evaluation(trial)

    def _event(self, worker: Attached, assignment: Assignment, report: TrainReport | EvaluateReport) -> Event:
        return Event(
            kind=assignment.kind,
            trial_id=assignment.trial.trial_id,
            worker=worker.name,
            epoch=assignment.epoch,
            partition=assignment.partition,
            began=assignment.began,
            ended=self._state.seconds,
            seconds=report.seconds,
            fetched_bytes=report.fetched_bytes,
            from_store=report.fetched_bytes > 0 and assignment.from_store,
        )

    def _is_their_turn(self, suspects: Collection[str]) -> bool:
        """Whether every suspect trial's peers are an epoch ahead of it, so that they wait for it."""
        epochs = {trial.trial_id: trial.epoch for trial in self._state.running}
        behind = [epochs[trial_id] for trial_id in suspects]
        others = [epoch for trial_id, epoch in epochs.items() if trial_id not in suspects]
        return bool(behind) and bool(others) and min(behind) < min(others)

    def _choose(self, worker: Attached, without: Collection[str]) -> tuple[str, Trial, int] | None:
        """Remove and give a unit, as its kind, its trial and its partition.

        Evaluations come first: they are short, and a trial that waits for them falls behind the others.
        """
        state = self._state
        pair = self._evaluation(worker, without)
        if pair is not None:
            return "evaluate", state.trial[pair[0]], pair[1]
        urgent = {trial.trial_id for trial in state.running if trial.urgent}
        unit = (
            state.hopper.next_unit(worker.name, without={*without, *(state.trial.keys() - urgent)}) if urgent else None
        )
        unit = unit or state.hopper.next_unit(worker.name, without=without)
        return None if unit is None else ("train", state.trial[unit.config], unit.partition)

    def _evaluation(self, worker: Attached, without: Collection[str]) -> tuple[str, int] | None:
        """Remove and give an evaluation that a worker has the shard for, one that costs no hop before others."""
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
        pair = min(ready, key=lambda pair: state.trial[pair[0]].holder != worker.name)
        state.evaluations.discard(pair)
        return pair
