"""Sessions, which are models with a deadline and a rate, and backends."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from optimizer.arguments import real, whole
from optimizer.errors import InvalidArgumentError
from optimizer.serving._errors import InfeasibleError
from optimizer.serving._profile import BatchingProfile

__all__ = ["Backend", "Session"]


@dataclass(frozen=True, slots=True)
class Session:
    """Requests for a model within a deadline (section 3.4.1).

    Parameters
    ----------
    name : str
        Name of the session.
    profile : BatchingProfile
        Profile of its model.
    slo_ms : float
        Milliseconds from arrival to answer.
    rate : float
        Requests per second, above 0. A session that waits for its first request is planned at a small rate.

    Raises
    ------
    InvalidArgumentError
        A value is not valid.
    InfeasibleError
        A request that just misses a batch waits for the next one, so ``slo_ms`` must be at least twice the latency of a
        batch of 1, plus pre- and postprocessing.

    Examples
    --------
    >>> profile = BatchingProfile({1: 20, 4: 50, 8: 75, 16: 100})
    >>> Session("A", profile, slo_ms=200, rate=64).peak_rate
    160.0
    """

    name: str
    profile: BatchingProfile
    slo_ms: float
    rate: float

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise InvalidArgumentError(f"name must be a non-empty str, got {self.name!r}.")
        if not isinstance(self.profile, BatchingProfile):
            raise InvalidArgumentError(f"profile must be a BatchingProfile, got {self.profile!r}.")
        real("slo_ms", self.slo_ms, 0, above=True)
        real("rate", self.rate, 0, above=True, why="Plan a session without traffic at a small rate, or leave it out.")
        least = 2 * float(self.profile.latencies[1])
        if self.budget_ms < least * (1 - 1e-12):
            beside = self.profile.preprocess_ms + self.profile.postprocess_ms
            raise InfeasibleError(
                f"slo_ms of session {self.name!r} must be at least {least + beside:g}, twice the latency of a batch of "
                f"1{f' and {beside:g} ms of pre- and postprocessing' if beside else ''}, got {self.slo_ms:g}."
            )

    @property
    def budget_ms(self) -> float:
        """Deadline without pre- and postprocessing, in milliseconds."""
        return self.slo_ms - self.profile.preprocess_ms - self.profile.postprocess_ms

    @property
    def peak_rate(self) -> float:
        """Requests per second of a backend that serves only this session: T of Algorithm 3.1.

        It uses the best batch that takes at most half of the budget, which is not always the largest one.
        """
        return self.profile.throughput(self.profile.best_batch(self.budget_ms / 2))

    def at_rate(self, rate: float) -> Session:
        """Return the session at another rate."""
        return replace(self, rate=rate)


@dataclass(frozen=True, slots=True)
class Backend:
    """A machine, or a part of one, that runs one batch at a time.

    ``speed`` is relative to the machine of the profiles: 2.0 halves their latencies. ``memory_bytes`` are for all its
    models.

    Raises
    ------
    InvalidArgumentError
        A value is not valid.
    """

    name: str
    speed: float = 1.0
    memory_bytes: int | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise InvalidArgumentError(f"name must be a non-empty str, got {self.name!r}.")
        real("speed", self.speed, 0, above=True)
        if self.memory_bytes is not None:
            whole("memory_bytes", self.memory_bytes)

    @property
    def room(self) -> float:
        """Bytes for models; infinite without a limit."""
        return math.inf if self.memory_bytes is None else self.memory_bytes
