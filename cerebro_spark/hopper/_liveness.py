"""Liveness checks: silent workers, and units that take too long."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cerebro_spark.hopper._state import Assignment, Attached, RunState

__all__ = ["Liveness"]

_LOG = logging.getLogger(__name__)

# Seconds without a call after which a worker counts as lost; it beats once a second.
_SILENT_S = 15.0

# Seconds after which a worker that beats, but has no unit and asks for none, counts as lost.
_IDLE_S = 300.0

# Seconds without a beat after which a process that did not report its end is gone with its node.
_GONE_S = 5.0

# Limit of a unit: a multiple of its trial's longest unit so far, plus some seconds.
_PATIENCE, _PATIENCE_S = 20.0, 60.0

# The first unit of a trial has no limit.
_UNKNOWN_S = float("inf")


class Liveness:
    """Record of the calls of workers and of the duration of units. Its callers hold the run's lock."""

    def __init__(self, state: RunState) -> None:
        self._state = state
        self._timeout = state.context.unit_timeout_s
        self._longest: dict[tuple[str, str], float] = {}
        self._processes: dict[str, float] = {}

    def heard(self, name: str, attempt: str) -> Attached | None:
        """Record a call of a worker, and return the worker; ``None`` if this attempt is not attached."""
        worker = self._state.workers.get(name)
        if worker is None or worker.attempt != attempt:
            return None
        worker.seen = time.monotonic()
        return worker

    def beats(self, attempt: str) -> None:
        """Record a beat of the process of an attempt, whether it is attached or not."""
        self._processes[attempt] = time.monotonic()

    def ended(self, attempt: str) -> None:
        """Record that the process of an attempt is dead, or has left the run."""
        self._processes.pop(attempt, None)

    @property
    def processes(self) -> int:
        """Number of processes with a recent beat."""
        now = time.monotonic()
        return sum(now - beat < _GONE_S for beat in self._processes.values())

    def took(self, assignment: Assignment) -> None:
        """Record that a unit has ended now."""
        share = (self._state.seconds - assignment.began) / len(assignment.starts)
        for trial in assignment.trials:
            key = (assignment.kind, trial.trial_id)
            self._longest[key] = max(self._longest.get(key, 0.0), share)

    def silent(self) -> dict[str, str]:
        """Return the workers that have not called, or not asked for work, for too long, with the reasons."""
        now, silent = time.monotonic(), {}
        for worker in self._state.workers.values():
            if now - worker.seen > _SILENT_S:
                silent[worker.name] = f"it has not called for {_SILENT_S:.0f} s"
            elif worker.assignment is None and now - worker.asked > _IDLE_S:
                silent[worker.name] = f"it lives, and has not asked for work for {_IDLE_S:.0f} s"
        return silent

    def abort_overdue(self) -> None:
        """Mark workers whose unit takes too long; they end themselves at their next beat."""
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
