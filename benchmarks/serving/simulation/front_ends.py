"""Front ends of a simulation and their view of the backends."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.serving.simulation.balancing import BALANCERS
from optimizer.arguments import one_of, real, whole

__all__ = ["FrontEnds"]


@dataclass(frozen=True, slots=True)
class FrontEnds:
    """Distribution of requests over backends.

    Parameters
    ----------
    balancing : {"deficit", "two choices", "weighted", "centralized"}
        Default ``"deficit"``. Centralized, a backend that is free takes its batch from a queue that all share.
    count : int
        Front ends, each of which balances alone. Default 1.
    cached_ms : float
        Age of the queue lengths that they know, for ``"two choices"``. Default 10.
    notice_ms : float
        Until they know that a backend is lost, and send its requests elsewhere. Default 100.

    Raises
    ------
    InvalidArgumentError
        A value that is not allowed.
    """

    balancing: str = BALANCERS[0]
    count: int = 1
    cached_ms: float = 10.0
    notice_ms: float = 100.0

    def __post_init__(self) -> None:
        one_of("balancing", self.balancing, BALANCERS)
        whole("count", self.count)
        real("cached_ms", self.cached_ms, 0)
        real("notice_ms", self.notice_ms, 0)
