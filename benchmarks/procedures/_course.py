"""Result of a simulated search."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from optimizer.procedures import Exchange, Ledger

__all__ = ["Simulation", "Span", "Visit"]


@dataclass(frozen=True, slots=True)
class Visit:
    """Time of a configuration on a worker.

    Parameters
    ----------
    epoch : int
        Epoch of the trial, counted from 1.
    partition : int or None
        None for the whole epoch, with ``parallelism="tasks"``.
    start, end : float
        Seconds.
    """

    trial_id: str
    epoch: int
    partition: int | None
    worker: int
    start: float
    end: float


@dataclass(frozen=True, slots=True)
class Span:
    """Time from the first to the last second of a configuration's training.

    Parameters
    ----------
    start, end : float
        Seconds.
    epochs : int
        Finished epochs.
    """

    trial_id: str
    start: float
    end: float
    epochs: int


@dataclass(frozen=True, slots=True, eq=False)
class Simulation:
    """Result of a simulated search.

    Parameters
    ----------
    makespan : float
        Seconds from the start to the end of the search.
    visits : tuple of Visit
        In the order of their starts.
    log : tuple of Exchange
        Calls of the procedure.
    ledger : Ledger
        Ledger of the procedure at the end.
    """

    workers: int
    makespan: float
    visits: tuple[Visit, ...]
    log: tuple[Exchange, ...]
    ledger: Ledger

    @property
    def idle(self) -> float:
        """Share of the workers' time in which they trained nothing."""
        if not self.makespan:
            return 0.0
        busy = sum(visit.end - visit.start for visit in self.visits)
        return 1 - busy / (self.workers * self.makespan)

    @property
    def spans(self) -> tuple[Span, ...]:
        """Spans of the configurations that trained, in the order of their starts by the procedure."""
        times: dict[str, tuple[float, float]] = {}
        for visit in self.visits:
            start, end = times.get(visit.trial_id, (visit.start, visit.end))
            times[visit.trial_id] = (min(start, visit.start), max(end, visit.end))
        return tuple(
            Span(trial.trial_id, *times[trial.trial_id], trial.finished)
            for trial in self.ledger
            if trial.trial_id in times
        )
