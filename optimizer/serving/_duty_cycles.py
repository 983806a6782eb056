"""Demand of sessions on a backend, by its duty cycle.

With a duty cycle of ``d`` a session at rate ``r`` runs batches of ``b = ceil(r d)``, each takes ``l(b)``, and a request
waits at most ``d + l(b)``. So a backend serves a group in time if, for some ``d``, every ``d + l(b)`` is within its
session's budget and the ``l(b)`` add up to at most ``d``: bin packing whose sizes and bins change with ``d``.

For fixed batches the longest ``d`` is the best one, so few have to be tried: for each session ``b / r``, up to the
largest batch that is in time, and there ``min(L - l(b), b / r)``. Equation 3.1 asks for ``b / r`` alone, which a
session slower than ``1 / (L - l(1))`` never meets.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from optimizer.serving._session import Session

__all__ = ["TOLERANCE", "Demand", "batch_in", "best_cycle", "demand", "longest_cycle", "peak_batch"]

# Tolerance for sums that are equal without rounding.
TOLERANCE = 1e-9
# Cycles to try for more than _FEW sessions: any choice is safe, and more of them pack no better.
_MOST = 256
_FEW = 40


@dataclass(frozen=True, slots=True)
class Demand:
    """Demand of sessions by duty cycle.

    ``cycles`` are ascending milliseconds. ``takes`` and ``memory``, both of shape (sessions, cycles), are milliseconds
    of a session's batch in a cycle (more than any cycle if it would be late) and bytes of its model; ``room`` is that
    of the backend.
    """

    cycles: NDArray[np.float64]
    takes: NDArray[np.float64]
    memory: NDArray[np.float64]
    room: float

    def allows(self, takes: NDArray[np.float64], memory: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Return the cycles in which the sums over a group fit."""
        return (takes <= self.cycles * (1 + TOLERANCE)) & (memory <= self.room)


def peak_batch(session: Session, speed: float, room: float) -> int:
    """Return the batch with the highest throughput of a backend of its own; 0 if memory or time allow none."""
    profile = session.profile
    beside = profile.preprocess_ms + profile.postprocess_ms
    # The backend takes l(b) / speed; measured in the time of the profile, the budget is longer.
    return profile.best_batch((session.slo_ms * speed - beside) / 2, room)


def demand(sessions: Sequence[Session], speed: float, room: float, most: int | None = None) -> Demand:
    """Tabulate the demand of sessions on backends of one kind.

    Keep ``most`` cycles, by default all for few sessions, and 256 for many.
    """
    proposals = [_cycles(session, speed, room) for session in sessions]
    cycles = np.unique(np.concatenate([np.empty(0), *proposals]))
    # Neighbours that differ by rounding are one.
    if len(cycles):
        cycles = cycles[np.append(np.diff(cycles) > TOLERANCE * cycles[1:], True)]
    limit = most or (len(cycles) if len(sessions) <= _FEW else _MOST)
    if len(cycles) > limit:
        cycles = cycles[np.linspace(0, len(cycles) - 1, limit).round().astype(int)]
    late = 10 * float(cycles[-1]) if len(cycles) else 1.0
    takes = np.full((len(sessions), len(cycles)), late)
    memory = np.zeros_like(takes)
    for place, session in enumerate(sessions):
        profile = session.profile
        batches = _batches(session.rate, cycles)
        known = np.minimum(batches, profile.max_batch)
        latencies = profile.latencies[known] / speed
        budget = session.slo_ms - (profile.preprocess_ms + profile.postprocess_ms) / speed
        fits = (batches <= profile.max_batch) & (cycles + latencies <= budget * (1 + TOLERANCE))
        takes[place, fits] = latencies[fits]
        memory[place] = profile.memory[known]
    return Demand(cycles, takes, memory, room)


def longest_cycle(session: Session, speed: float, room: float) -> float:
    """Return the duty cycle of a session alone: lines 9 and 10 of Algorithm 3.1, with the wait of a slow session."""
    cycles = _cycles(session, speed, room)
    # If throughput falls with the batch size, the longest cycle may be too short for its own batch.
    served = cycles[session.profile.latencies[1 : len(cycles) + 1] / speed <= cycles * (1 + TOLERANCE)]
    return float(served[-1]) if len(served) else 0.0


def best_cycle(sessions: Sequence[Session], speed: float, room: float) -> float | None:
    """Return the duty cycle in which a group occupies least of a backend; ``None`` if it fits in none."""
    sizes = demand(sessions, speed, room, most=1 << 30)
    takes = sizes.takes.sum(0)
    fits = sizes.allows(takes, sizes.memory.sum(0))
    if not fits.any():
        return None
    occupancy = np.where(fits, takes / np.maximum(sizes.cycles, 1e-300), np.inf)
    return float(sizes.cycles[int(np.argmin(np.round(occupancy, 9)))])


def batch_in(rate: float, cycle: float) -> int:
    """Return the number of requests in a cycle, rounded up."""
    return int(_batches(rate, np.array([cycle]))[0])


def _batches(rate: float, cycles: NDArray[np.float64]) -> NDArray[np.int64]:
    exact = rate * cycles / 1000
    return np.maximum(1, np.ceil(exact * (1 - TOLERANCE) - TOLERANCE)).astype(np.int64)


def _cycles(session: Session, speed: float, room: float) -> NDArray[np.float64]:
    """Propose cycles: at ``b / r`` a batch is full, and the last one is as long as the deadline allows."""
    profile = session.profile
    budget = session.slo_ms - (profile.preprocess_ms + profile.postprocess_ms) / speed
    batches = np.arange(1, profile.max_batch + 1)
    latencies = profile.latencies[1:] / speed
    gathered = (batches - 1) * (1000 / session.rate)
    slack = 1 + TOLERANCE
    fits = (gathered + latencies <= budget * slack) & (2 * latencies <= budget * slack) & (profile.memory[1:] <= room)
    # All three only grow with the batch.
    count = int(fits.sum())
    if not count:
        return np.empty(0)
    cycles = batches[:count] * (1000 / session.rate)
    proposed: NDArray[np.float64] = np.minimum(cycles, budget - latencies[:count])
    return proposed
