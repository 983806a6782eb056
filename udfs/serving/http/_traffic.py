"""Counts of requests by model and result, for metrics and the live page."""

from __future__ import annotations

import threading
import time
from bisect import bisect_left
from collections import Counter, deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["BUCKETS_S", "IN_TIME", "LATE", "RESULTS", "Counts", "ModelTraffic", "Recent", "Step", "Traffic", "Version"]

IN_TIME, LATE = "in_time", "late"

RESULTS = (IN_TIME, LATE, "too_late", "overloaded", "failed", "stopped", "disconnected", "bad_request", "no_such_model")
"""Results of a request to a deployed model; only the first two have an answer."""

BUCKETS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Upper bounds of the latency histogram in seconds; an unbounded bucket follows."""

# Results that a client causes; they do not count in the rate and the share in time.
_CLIENTS = {"disconnected", "bad_request", "no_such_model"}
_WINDOW_S = 60.0
_MOST_RECENT = 10_000
# The history: its steps, and the latencies that a step keeps for its quantiles.
_STEP_S, _STEPS = 30.0, 30
_MOST_OF_STEP = 1_000


class Version(Protocol):
    """A version of a model."""

    @property
    def name(self) -> str:
        """Name of the model."""

    @property
    def version(self) -> str:
        """Version of the model."""


class Counts(Protocol):
    """Counter of requests."""

    @property
    def in_flight(self) -> int:
        """Requests of all models that wait for their answer."""

    def began(self, model: Version) -> None:
        """Count a request as in flight."""

    def ended(self, model: Version, result: str, seconds: float) -> None:
        """Count the result of a request that was in flight."""

    def refused(self, reason: str) -> None:
        """Count a request without a deployed model or without the token."""


@dataclass(frozen=True, slots=True)
class Recent:
    """Traffic of a model in the last minute."""

    rate: float  # requests per second, without those that the client cancelled or got wrong
    in_time: float | None  # share of them answered in time; None without requests
    p50_ms: float | None  # latency of the answers; None without answers
    p99_ms: float | None


@dataclass(frozen=True, slots=True)
class Step:
    """Traffic of a model in half a minute of the last quarter of an hour."""

    age_s: float  # seconds from the middle of the step to now
    rate: float  # requests per second
    p99_ms: float | None  # latency of the answers; None without answers


@dataclass(slots=True)
class _Span:
    """Counts of one step of the history."""

    number: int
    requests: int = 0
    latencies: deque[float] = field(default_factory=lambda: deque(maxlen=_MOST_OF_STEP))


@dataclass(slots=True)
class ModelTraffic:
    """Counts of a version of a model since the start."""

    results: Counter[str] = field(default_factory=Counter)  # requests by result
    # Answers by latency: one count per bound in BUCKETS_S, and one beyond.
    buckets: list[int] = field(default_factory=lambda: [0] * (len(BUCKETS_S) + 1))
    seconds: float = 0.0  # sum of the latencies of all answers
    in_flight: int = 0  # requests that wait for their answer
    _recent: deque[tuple[float, str, float]] = field(default_factory=lambda: deque(maxlen=_MOST_RECENT))
    _spans: deque[_Span] = field(default_factory=lambda: deque(maxlen=_STEPS + 1))

    def copy(self) -> ModelTraffic:
        """Copy the counts, without the last minute."""
        return ModelTraffic(Counter(self.results), list(self.buckets), self.seconds, self.in_flight)

    def recent(self, now: float, began: float) -> Recent:
        """Summarise the last minute, or the time since the start."""
        entries = [entry for entry in self._recent if entry[0] > now - _WINDOW_S and entry[1] not in _CLIENTS]
        full = len(self._recent) == self._recent.maxlen
        span = min(_WINDOW_S, now - (self._recent[0][0] if full else began))
        latencies = sorted(latency for _, result, latency in entries if result in {IN_TIME, LATE})
        in_time = sum(result == IN_TIME for _, result, _ in entries)
        return Recent(
            rate=len(entries) / max(span, 1.0),
            in_time=in_time / len(entries) if entries else None,
            p50_ms=_quantile_ms(latencies, 0.5),
            p99_ms=_quantile_ms(latencies, 0.99),
        )

    def history(self, now: float) -> list[Step]:
        """List the steps of the last 15 minutes that are over, and the current one, from the oldest on."""
        current = int(now // _STEP_S)
        spans = {span.number: span for span in self._spans}
        steps = []
        for number in range(current - _STEPS + 1, current + 1):
            span = spans.get(number, _Span(number))
            length = _STEP_S if number < current else max(1.0, now - number * _STEP_S)
            middle = number * _STEP_S + length / 2
            steps.append(Step(now - middle, span.requests / length, _quantile_ms(sorted(span.latencies), 0.99)))
        return steps

    def add(self, now: float, result: str, seconds: float) -> None:
        """Count a request that has ended."""
        self.results[result] += 1
        self._recent.append((now, result, seconds))
        number = int(now // _STEP_S)
        if not self._spans or self._spans[-1].number != number:
            self._spans.append(_Span(number))
        if result not in _CLIENTS:
            self._spans[-1].requests += 1
        if result in {IN_TIME, LATE}:
            self._spans[-1].latencies.append(seconds)
        if result in {IN_TIME, LATE}:
            self.buckets[bisect_left(BUCKETS_S, seconds)] += 1
            self.seconds += seconds


class Traffic:
    """Counts of all models; any thread may call every method."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._began = clock, clock()
        self._lock = threading.Lock()
        self._models: dict[tuple[str, str], ModelTraffic] = {}
        self._refused: Counter[str] = Counter()

    @property
    def in_flight(self) -> int:
        """Requests of all models that wait for their answer."""
        with self._lock:
            return sum(counts.in_flight for counts in self._models.values())

    def began(self, model: Version) -> None:
        """Count a request as in flight."""
        with self._lock:
            self._counts(model).in_flight += 1

    def ended(self, model: Version, result: str, seconds: float) -> None:
        """Count the result of a request that was in flight."""
        with self._lock:
            counts = self._counts(model)
            counts.in_flight -= 1
            counts.add(self._clock(), result, seconds)

    def refused(self, reason: str) -> None:
        """Count a request without a deployed model or token, by reason: unknown names become no labels."""
        with self._lock:
            self._refused[reason] += 1

    def totals(self) -> tuple[Mapping[tuple[str, str], ModelTraffic], Mapping[str, int]]:
        """Return the counts by name and version since the start, and the refused requests by reason."""
        with self._lock:
            return {key: counts.copy() for key, counts in self._models.items()}, dict(self._refused)

    def recent(self, model: Version) -> Recent:
        """Summarise a model's last minute."""
        with self._lock:
            return self._counts(model).recent(self._clock(), self._began)

    def history(self, model: Version) -> list[Step]:
        """List the traffic of a model in the last 15 minutes, by half minutes."""
        with self._lock:
            return self._counts(model).history(self._clock())

    def _counts(self, model: Version) -> ModelTraffic:
        return self._models.setdefault((model.name, model.version), ModelTraffic())


def _quantile_ms(latencies: list[float], share: float) -> float | None:
    if not latencies:
        return None
    return 1000 * latencies[min(len(latencies) - 1, int(share * len(latencies)))]
