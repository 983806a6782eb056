"""State of a run on the driver: trials, attached workers, their units, and past events."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from cerebro_spark.hopper._events import Unobserved
from cerebro_spark.hopper._holdings import Holdings
from cerebro_spark.hopper._trial import Copy
from udfs.hopper import SourceState

if TYPE_CHECKING:
    from cerebro_spark.hopper._context import RunContext
    from cerebro_spark.hopper._events import Event, Loss, Observer
    from cerebro_spark.hopper._grouping import Group
    from cerebro_spark.hopper._trial import Trial
    from optimizer.hopper import Hopper

__all__ = ["Assignment", "Attached", "RunState", "Start", "Team"]


@dataclass(frozen=True, slots=True)
class Start:
    """A trial of a unit, and the checkpoint that it starts from."""

    trial: Trial
    version: int
    from_store: bool
    peer: str | None


@dataclass(slots=True, eq=False)
class Team:
    """Workers that train an epoch of a trial together, with one unit.

    ``shares`` are the shards of each worker, in the order of their ranks; ``messages`` those that they have sent to
    meet. Once a worker is gone or declines, ``reason`` says why; ``is_done`` once the epoch is trained.
    """

    unit_id: str
    trial: Trial
    epoch: int
    mode: str
    averages: bool
    shares: dict[str, tuple[int, ...]]
    configurations: int
    messages: dict[str, str] = field(default_factory=dict)
    reason: str = ""
    failed_at: float = 0.0
    is_done: bool = False

    def fail(self, reason: str) -> bool:
        """Mark the team as failed, unless the epoch is trained; return ``True`` if it was not marked before."""
        if self.is_done or self.reason:
            return False
        self.reason, self.failed_at = reason, time.monotonic()
        return True


@dataclass(slots=True)
class Assignment:
    """A unit that a worker has; ``alone`` where its trial is suspect, and no other worker has a unit meanwhile.

    Workers with the same joint unit have one ``team``.
    """

    unit_id: str
    kind: str
    group: Group
    starts: tuple[Start, ...]
    epoch: int
    partition: int
    began: float
    alone: bool
    team: Team | None = None

    @property
    def trials(self) -> tuple[Trial, ...]:
        """The trials that the worker has with it: of an evaluation, maybe not all of the group."""
        return tuple(start.trial for start in self.starts)


@dataclass(slots=True)
class Attached:
    """An attempt of a worker that is attached."""

    name: str
    attempt: str
    location: str
    host: str
    seen: float
    asked: float
    assignment: Assignment | None = None
    drop: list[tuple[str, int]] = field(default_factory=list)
    abort: bool = False
    # Whether its machine is about to end: its loss is no trial's fault.
    is_reclaimed: bool = False
    # What had changed when there was nothing for it.
    idle_at: int = -1
    # Whether it waits for other workers to form a team, and whether a team has a unit for it that it does not know of.
    is_waiting: bool = False
    is_called: bool = False


class RunState:
    """The state that the coordinator's parts share. Code that reads or changes it holds the lock ``changed``.

    ``entered`` is the epoch that each trial trains or waits in; results of the trials in ``closing`` are being written,
    and the procedure has not decided about them yet. ``evaluations`` are pairs of trial and partition that no worker
    has been given yet, ``blamed`` pairs of worker and number of each loss that a trial is blamed for. ``given`` has the
    trials of the last unit of each attempt of a worker, ``dismissed`` the attempts that were considered lost.
    ``aborting`` ends every process that still beats. ``changes`` counts changes that may make a unit available. If
    ``shared``, other runs share the workers, so that none may wait here for a unit while it is its turn.
    """

    hopper: Hopper

    def __init__(
        self,
        trials: list[Trial],
        context: RunContext,
        *,
        earlier_s: float = 0.0,
        observer: Observer | None = None,
    ) -> None:
        self.context = context
        self.changed = threading.Condition(threading.RLock())
        self.trials = trials
        self.trial = {trial.trial_id: trial for trial in self.trials}
        self.holdings = Holdings(context.first_shares)
        self.partitions = tuple(sorted(set().union(*context.first_shares.values())))
        self.workers: dict[str, Attached] = {}
        self.observer = observer or Unobserved()
        self.entered: dict[str, int] = {}
        self.closing: set[str] = set()
        self.evaluations: set[tuple[str, int]] = set()
        self.events: list[Event] = []
        self.losses: list[Loss] = []
        self.blamed: set[tuple[str, int]] = set()
        self.given: dict[str, tuple[Trial, ...]] = {}
        self.redone = 0
        self.decision_seconds = 0.0
        self.checkpoint_seconds = 0.0
        self.error: BaseException | None = None
        self.over = False
        self.aborting = False
        self.dismissed: set[str] = set()
        self.changes = 0
        self.shared = False
        self._validates = context.validates
        self._checkpoints = context.spec.checkpoints
        self._started = time.monotonic() - earlier_s

    @property
    def seconds(self) -> float:
        """Time since the start of the run."""
        return time.monotonic() - self._started

    @property
    def epoch(self) -> int:
        """The earliest epoch that a running trial is in."""
        return min((trial.epoch for trial in self.running), default=0)

    @property
    def running(self) -> list[Trial]:
        """Trials that have not ended."""
        return [trial for trial in self.trials if trial.running]

    @property
    def assignments(self) -> list[Assignment]:
        """Units that workers have."""
        return [worker.assignment for worker in self.workers.values() if worker.assignment is not None]

    def reachable(self, trial: Trial) -> bool:
        """Return ``True`` if a worker or the store has the trial's last checkpoint, or the seed builds it."""
        return trial.durable or trial.holder in self.workers

    def stores(self, trial: Trial, epoch: int, *, ends_epoch: bool) -> bool:
        """Return ``True`` if the state of a trial after a visit belongs in the store, not in memory alone."""
        if self._checkpoints == "visits":
            return True
        return ends_epoch and (self._checkpoints == "epochs" or epoch + 1 >= trial.granted)

    def secured(self, trial: Trial) -> bool:
        """Return ``True`` if the state of a trial that has finished its epoch is where it belongs."""
        return trial.durable if self.stores(trial, trial.epoch, ends_epoch=True) else self.reachable(trial)

    def hopped(self, trial: Trial, before: str | None, version: int) -> None:
        """Keep the state that a trial has been trained on where it is, or have it dropped.

        ``before`` is the worker that held the earlier state, of that ``version``; the trial's holder has the new one.
        """
        if trial.copy is not None and trial.copy.worker == trial.holder:
            # It holds one state of a trial: the new one.
            trial.copy = None
        if before is None or before == trial.holder or before not in self.workers:
            return
        earlier = Copy(before, version)
        if self._checkpoints == "visits":
            self._drop(trial, earlier)
        else:
            self.drop_copy(trial)
            trial.copy = earlier

    def drop_copy(self, trial: Trial) -> None:
        """Request that the copy of an earlier state of a trial is dropped."""
        copy, trial.copy = trial.copy, None
        if copy is not None:
            self._drop(trial, copy)

    def _drop(self, trial: Trial, copy: Copy) -> None:
        if copy.worker in self.workers:
            self.workers[copy.worker].drop.append((trial.trial_id, copy.version))

    def source_state(self, trial: Trial) -> SourceState | None:
        """Name the checkpoint that a clone begins from, by an empty digest where it is lost; ``None`` of no clone."""
        if trial.source is None:
            return None
        source, version = self.trial[trial.source.trial_id], trial.source.epoch * len(self.partitions)
        digest = source.digests[version] if version <= source.version else ""
        return SourceState(source.trial_id, version, digest, weights_only=trial.source.weights_only)

    def waits(self, trial: Trial) -> bool:
        """Return ``True`` if a clone waits for its source, which trains up to there again after damage."""
        state = None if trial.version else self.source_state(trial)
        if state is None:
            return False
        source = self.trial[state.trial_id]
        return source.running and source.version < state.version

    def want_evaluation(self, trial: Trial) -> None:
        """Add the evaluations of a trial that has visited all partitions in its epoch."""
        if self._validates and trial.running and len(trial.done(trial.epoch)) == len(self.partitions):
            self.evaluations |= {
                (trial.trial_id, partition) for partition in self.partitions if partition not in trial.evaluated
            }

    def add(self, trial: Trial) -> None:
        """Add a trial that the director has started."""
        self.trial[trial.trial_id] = trial
        self.hopper.add(trial.trial_id, self.partitions, inherited=self.inherited(trial))

    def inherited(self, trial: Trial) -> int:
        """Count the epochs that a clone has from its source, and from the source's own."""
        if trial.source is None or trial.source.weights_only:
            return 0
        return trial.source.epoch + self.inherited(self.trial[trial.source.trial_id])

    def cancel_evaluation(self, trial: Trial) -> None:
        """Remove the evaluations of a trial."""
        self.evaluations = {pair for pair in self.evaluations if pair[0] != trial.trial_id}

    def fail(self, error: BaseException) -> None:
        """End the run with an error; the first one counts."""
        with self.changed:
            self.error = self.error or error
            self.over = True
            self.changed.notify_all()
