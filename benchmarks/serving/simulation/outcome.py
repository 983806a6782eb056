"""Outcomes of simulated requests."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

__all__ = ["Outcome", "Served"]


@dataclass(frozen=True, slots=True)
class Served:
    """Requests of one session or query.

    Parameters
    ----------
    name : str
    requests : int
    in_time, late : int
        Answered within the deadline, or after it.
    dropped : int
        Given up because they could not be in time.
    lost : int
        Left over when no backend was alive.
    latencies_ms : array of shape (answered,)
        From arrival to answer, in the order of the answers.
    batches : array of shape (batches,)
        Sizes, in the order of their ends; of a query none.
    """

    name: str
    requests: int
    in_time: int
    late: int
    dropped: int
    lost: int
    latencies_ms: NDArray[np.float64] = field(repr=False, compare=False)
    batches: NDArray[np.int64] = field(repr=False, compare=False)

    @property
    def good_rate(self) -> float:
        """Share of the requests that were answered in time; 1 without requests."""
        return self.in_time / self.requests if self.requests else 1.0

    def percentile(self, share: float) -> float:
        """Read a percentile of the latencies, such as 99; NaN without answers."""
        return float(np.percentile(self.latencies_ms, share)) if len(self.latencies_ms) else float("nan")


@dataclass(frozen=True, slots=True)
class Outcome:
    """Course of a simulation. Made by :func:`benchmarks.serving.simulation.simulate`.

    Attributes
    ----------
    seconds : float
        Until the last request was settled.
    sessions : mapping of str to Served
        Sessions and, by their names, queries.
    busy : mapping of str to float
        Share of the time in which each backend ran a batch.
    queries : frozenset of str
        Which of ``sessions`` are queries.
    """

    seconds: float
    sessions: Mapping[str, Served]
    busy: Mapping[str, float]
    queries: frozenset[str]

    @property
    def good_rate(self) -> float:
        """Share of all requests that users sent and that were answered in time.

        A query counts once, and not by the models that it calls.
        """
        own = [
            served
            for name, served in self.sessions.items()
            if name in self.queries or name.partition("/")[0] not in self.queries
        ]
        requests = sum(served.requests for served in own)
        return sum(served.in_time for served in own) / requests if requests else 1.0

    def explain(self) -> str:
        """Describe the outcomes of the requests of each session, and the utilization of the backends."""
        lines = [f"{100 * self.good_rate:.2f} % in time, {self.seconds:.1f} s simulated"]
        for served in self.sessions.values():
            mean = f", batches of {served.batches.mean():.1f}" if len(served.batches) else ""
            good = f"{served.requests:,} requests, {100 * served.good_rate:.2f} % in time"
            bad = f"{served.late:,} late, {served.dropped:,} dropped, {served.lost:,} lost"
            lines.append(f"  {served.name}: {good}, {bad}, p99 {served.percentile(99):.1f} ms{mean}")
        lines += [f"  {name}: busy {100 * share:.0f} %" for name, share in self.busy.items()]
        return "\n".join(lines)
