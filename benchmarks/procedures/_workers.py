"""Workers of a simulation, with models that hop or with a configuration per worker."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from optimizer.hopper import Hopper, Unit

if TYPE_CHECKING:
    from collections.abc import Iterator

    from optimizer.procedures import Trial

__all__ = ["HoppingWorkers", "TaskWorkers", "Work", "Workers"]

#: Trial, partition (None for all of them, one after the other) and worker.
Work = tuple["Trial", int | None, int]


class Workers(Protocol):
    """Workers and their next units."""

    def enter(self, trial: Trial) -> None:
        """Let a trial begin the next epoch that it was granted."""

    def stop(self, trial: Trial) -> None:
        """Drop the remaining work of a trial that has ended."""

    def take(self) -> Iterator[Work]:
        """Yield work for idle workers."""

    def finish(self, work: Work, seconds: float) -> bool:
        """Record finished work, and return True if the trial's epoch is over."""


class HoppingWorkers:
    """Workers between which models hop, with the scheduler of a live run, which learns unit times during the run.

    Parameters
    ----------
    workers, partitions : int
        Partition ``q`` lies on worker ``q % workers``.
    """

    def __init__(self, workers: int, partitions: int, policy: str, seed: int) -> None:
        names = [f"w{worker}" for worker in range(workers)]
        replicas = {partition: [names[partition % workers]] for partition in range(partitions)}
        # Workers beyond the partitions have nothing to train, and none is attached for them.
        self._hopper = Hopper((), replicas, policy=policy, seed=seed)
        self._worker = {name: worker for worker, name in enumerate(names)}
        self._partitions = partitions
        self._trials: dict[str, Trial] = {}

    def enter(self, trial: Trial) -> None:
        """See :class:`Workers`."""
        if trial.trial_id not in self._trials:
            self._trials[trial.trial_id] = trial
            inherited = len(trial.curve) - trial.finished
            self._hopper.add(trial.trial_id, range(self._partitions), inherited=inherited)
        self._hopper.enter(trial.trial_id, trial.finished, ahead=trial.granted - trial.finished - 1)

    def stop(self, trial: Trial) -> None:
        """See :class:`Workers`."""
        if trial.trial_id in self._trials:
            self._hopper.stop(trial.trial_id)

    def take(self) -> Iterator[Work]:
        """See :class:`Workers`."""
        for name in self._hopper.idle_workers:
            unit = self._hopper.next_unit(name)
            if unit is not None:
                yield self._trials[unit.config], unit.partition, self._worker[name]

    def finish(self, work: Work, seconds: float) -> bool:
        """See :class:`Workers`."""
        trial, partition, _ = work
        self._hopper.finish(Unit(trial.trial_id, partition or 0), seconds)
        return len(self._hopper.visited(trial.trial_id)) == self._partitions


class TaskWorkers:
    """Task parallelism: a worker has all partitions, and trains what a trial was granted before it takes another one.

    Trials queue in the order of the decisions.
    """

    def __init__(self, workers: int) -> None:
        self._free = set(range(workers))
        self._waiting: dict[str, Trial] = {}
        self._on: dict[str, int] = {}

    def enter(self, trial: Trial) -> None:
        """See :class:`Workers`."""
        self._waiting[trial.trial_id] = trial

    def stop(self, trial: Trial) -> None:
        """See :class:`Workers`."""
        self._waiting.pop(trial.trial_id, None)
        self._on.pop(trial.trial_id, None)

    def take(self) -> Iterator[Work]:
        """See :class:`Workers`."""
        for trial_id in [trial_id for trial_id in self._on if trial_id not in self._waiting and self._idle(trial_id)]:
            del self._on[trial_id]
        for trial_id, trial in [*self._waiting.items()]:
            if not self._free:
                return
            worker = self._on.get(trial_id)
            if worker is None:
                taken = set(self._on.values())
                worker = min(self._free - taken, default=None)
            if worker is None or worker not in self._free:
                continue
            del self._waiting[trial_id]
            self._on[trial_id] = worker
            self._free.discard(worker)
            yield trial, None, worker

    def _idle(self, trial_id: str) -> bool:
        return self._on[trial_id] in self._free

    def finish(self, work: Work, seconds: float) -> bool:
        """See :class:`Workers`."""
        self._free.add(work[2])
        return True
