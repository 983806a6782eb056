"""Liveness: which workers have fallen silent, and which units take too long."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cerebro_spark.hopper._state import Assignment, Attached, RunState

__all__ = ["Liveness"]

_LOG = logging.getLogger(__name__)

# A worker that has not called for so long is taken for lost; it beats once a second.
_SILENT_S = 15.0

# So is one that lives and has no unit, and does not ask for one: its process beats, but does nothing.
_IDLE_S = 300.0

# A process that has not beaten for so long, and did not say that it ended, is gone with its node.
_GONE_S = 5.0

# A unit may take so many times its trial's longest one so far, and so many seconds besides.
_PATIENCE, _PATIENCE_S = 20.0, 60.0

# Nobody knows how long the first unit of a trial may take.
_UNKNOWN_S = float("inf")


class Liveness:
    """Follows the calls of workers and the duration of units. Its callers hold the run's lock.

    Parameters
    ----------
    state : RunState
    unit_timeout_s : float or None
        Limit of one unit; ``None`` allows 20 times the longest unit so far of its trials, and a minute.
    """

    def __init__(self, state: RunState, unit_timeout_s: float | None) -> None:
        self._state = state
        self._timeout = unit_timeout_s
        self._longest: dict[tuple[str, str], float] = {}
        self._processes: dict[str, float] = {}

    def heard(self, name: str, attempt: str) -> Attached | None:
        """Note a call of a worker; ``None`` where this attempt of it is not attached."""
        worker = self._state.workers.get(name)
        if worker is None or worker.attempt != attempt:
            return None
        worker.seen = time.monotonic()
        return worker

    def beats(self, attempt: str) -> None:
        """Note that the process of an attempt lives, whether it is attached or not."""
        self._processes[attempt] = time.monotonic()

    def ended(self, attempt: str) -> None:
        """Note that the process of an attempt is dead, or done with the run."""
        self._processes.pop(attempt, None)

    @property
    def processes(self) -> int:
        """Number of processes that live, as far as anybody here knows."""
        now = time.monotonic()
        return sum(now - beat < _GONE_S for beat in self._processes.values())

    def took(self, assignment: Assignment) -> None:
        """Note that a unit has ended now."""
        share = (self._state.seconds - assignment.began) / len(assignment.starts)
        for trial in assignment.trials:
            key = (assignment.kind, trial.trial_id)
            self._longest[key] = max(self._longest.get(key, 0.0), share)

    def silent(self) -> dict[str, str]:
        """Names of the workers that have not called, or not asked for work, for too long, and the reason to give."""
        now, silent = time.monotonic(), {}
        for worker in self._state.workers.values():
            if now - worker.seen > _SILENT_S:
                silent[worker.name] = f"it has not called for {_SILENT_S:.0f} s"
            elif worker.assignment is None and now - worker.asked > _IDLE_S:
                silent[worker.name] = f"it lives, and has not asked for work for {_IDLE_S:.0f} s"
        return silent

    def abort_overdue(self) -> None:
        """Have the workers end themselves whose unit takes too long; they hear of it at their next beat."""
        for worker in self._state.workers.values():
            assignment = worker.assignment
            if assignment is None or worker.abort:
                continue
            if self._state.seconds - assignment.began > self._limit(assignment):
                _LOG.warning("%s takes too long on %s and is ended", assignment.unit_id, worker.name)
                worker.abort = True

    def _limit(self, assignment: Assignment) -> float:
        if self._timeout is not None:
            return self._timeout
        longest = sum(self._longest.get((assignment.kind, trial.trial_id), _UNKNOWN_S) for trial in assignment.trials)
        return _PATIENCE * longest + _PATIENCE_S
