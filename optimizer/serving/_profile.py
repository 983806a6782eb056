"""Batching profile of a model: the latency and memory of each batch size, on one kind of machine."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any

import numpy as np

from optimizer.arguments import real, whole
from optimizer.serving._errors import ServingError
from optimizer.serving._interpolation import at_each_batch

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

__all__ = ["BatchingProfile"]

# Largest batch size: tables have every size up to the largest, and more indicates a mistake of units.
_LARGEST = 1 << 16
_ROUNDING = 1e-6


@dataclass(frozen=True, slots=True)
class BatchingProfile:
    """Latency and memory of a model by batch size (section 3.2.1).

    Both are interpolated between measured batches; no batch beyond the largest measured one is ever used. Latency is
    made non-decreasing by isotonic regression, memory by its running maximum. Throughput may fall: the best batch is
    looked up, not assumed to be the largest.

    Parameters
    ----------
    latency_ms : mapping of int to float
        Mean milliseconds by batch size, with size 1 among them.
    deviation_ms : mapping of int to float, optional
        Standard deviations at any of the sizes. Default 0.
    memory_bytes : mapping of int to int, optional
        Bytes with the model loaded while a batch runs, at any of the sizes. Default 0.
    preprocess_ms, postprocess_ms : float
        Milliseconds per request outside the batch: they shorten its budget and do not occupy the backend. Default 0.
    hardware : str
        Machine of the measurement. Default ``""``, unknown.
    threads : int
        CPU threads of the measurement. Default 1.

    Raises
    ------
    ServingError
        Batch size 1 is missing, or a value is negative, zero, NaN or infinite.

    Examples
    --------
    >>> profile = BatchingProfile({1: 20, 4: 50, 8: 75, 16: 100})
    >>> profile.max_batch, float(profile.latencies[6]), profile.throughput(16)
    (16, 62.5, 160.0)
    >>> profile.best_batch(limit_ms=80)
    9
    """

    latency_ms: Mapping[int, float] = field(hash=False)
    deviation_ms: Mapping[int, float] = field(default_factory=dict, hash=False)
    memory_bytes: Mapping[int, int] = field(default_factory=dict, hash=False)
    preprocess_ms: float = 0.0
    postprocess_ms: float = 0.0
    hardware: str = ""
    threads: int = 1
    latencies: NDArray[np.float64] = field(init=False, repr=False, compare=False)
    deviations: NDArray[np.float64] = field(init=False, repr=False, compare=False)
    memory: NDArray[np.float64] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        latency = _points("latency_ms", self.latency_ms, above=True)
        if 1 not in latency:
            known = ", ".join(map(str, sorted(latency))) or "none"
            raise ServingError(f"latency_ms must contain batch size 1, which every plan needs, got {known}.")
        largest = max(latency)
        deviation = _points("deviation_ms", self.deviation_ms)
        memory = _points("memory_bytes", self.memory_bytes)
        for name, points in (("deviation_ms", deviation), ("memory_bytes", memory)):
            if points and max(points) > largest:
                raise ServingError(
                    f"{name} must have batch sizes of at most {largest}, as latency_ms, got {max(points)}."
                )
        real("preprocess_ms", self.preprocess_ms, 0)
        real("postprocess_ms", self.postprocess_ms, 0)
        whole("threads", self.threads)
        bytes_by_batch = np.ceil(np.maximum.accumulate(at_each_batch(memory or {1: 0.0}, largest)) - _ROUNDING)
        bytes_by_batch.flags.writeable = False
        tables = {
            "latency_ms": latency,
            "deviation_ms": deviation,
            "memory_bytes": {batch: int(number) for batch, number in memory.items()},
            "latencies": at_each_batch(latency, largest, fitted=True),
            "deviations": at_each_batch(deviation or {1: 0.0}, largest),
            "memory": bytes_by_batch,
        }
        for name, value in tables.items():
            object.__setattr__(self, name, value)

    @classmethod
    def from_line(cls, per_item_ms: float, fixed_ms: float, max_batch: int, **options: Any) -> BatchingProfile:
        """Return the profile ``l(b) = per_item_ms * b + fixed_ms``.

        ``options`` are other arguments of :class:`BatchingProfile`.

        Examples
        --------
        The model of Figure 3.12; half of 100 ms is enough for 65:

        >>> BatchingProfile.from_line(0.69, 5.0, 128).best_batch(limit_ms=50)
        65
        """
        real("per_item_ms", per_item_ms, 0)
        real("fixed_ms", fixed_ms, 0)
        batches = {1, whole("max_batch", max_batch)}
        return cls({batch: per_item_ms * batch + fixed_ms for batch in batches}, **options)

    @property
    def max_batch(self) -> int:
        """Largest measured batch."""
        return len(self.latencies) - 1

    def throughput(self, batch: int) -> float:
        """Return the requests per second of consecutive batches of a size."""
        return 1000 * batch / float(self.latencies[self._known(batch)])

    def best_batch(self, limit_ms: float, memory_bytes: float = math.inf) -> int:
        """Return the smallest batch with the highest throughput within a time; 0 if no batch fits.

        ``limit_ms`` is half of a session's budget if it has the backend alone.
        """
        # The tolerance keeps b for a limit computed as 2 l(b) / 2.
        fits = (self.latencies <= limit_ms * (1 + 1e-12)) & (self.memory <= memory_bytes)
        fits[0] = False
        if not fits.any():
            return 0
        batches = np.arange(len(self.latencies))
        rates = np.divide(batches, self.latencies, out=np.zeros(len(batches)), where=fits)
        return int(np.argmax(np.round(rates, 12)))

    def at_speed(self, speed: float) -> BatchingProfile:
        """Return the profile of a backend that is ``speed`` times as fast."""
        real("speed", speed, 0, above=True)
        return BatchingProfile(
            {batch: ms / speed for batch, ms in self.latency_ms.items()},
            {batch: ms / speed for batch, ms in self.deviation_ms.items()},
            self.memory_bytes,
            self.preprocess_ms / speed,
            self.postprocess_ms / speed,
            self.hardware,
            self.threads,
        )

    def check_machine(self, hardware: str, threads: int) -> None:
        """Refuse a machine other than that of the measurement.

        Raises
        ------
        ServingError
            The hardware or the number of threads differs.
        """
        if self.hardware and (hardware, threads) != (self.hardware, self.threads):
            raise ServingError(
                f"The profile must be measured on {hardware!r} with {threads} threads, got one of {self.hardware!r} "
                f"with {self.threads}. Measure the model here."
            )

    def document(self) -> dict[str, Any]:
        """Return the profile as a value for JSON."""
        return {
            "latency_ms": {str(batch): ms for batch, ms in self.latency_ms.items()},
            "deviation_ms": {str(batch): ms for batch, ms in self.deviation_ms.items()},
            "memory_bytes": {str(batch): number for batch, number in self.memory_bytes.items()},
            "preprocess_ms": self.preprocess_ms,
            "postprocess_ms": self.postprocess_ms,
            "hardware": self.hardware,
            "threads": self.threads,
        }

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> BatchingProfile:
        """Return the profile of a :meth:`document`.

        Raises
        ------
        ServingError
            A key is missing or unknown, or a batch size is not an int.
        """
        try:
            read = dict(document)
            for name in ("latency_ms", "deviation_ms", "memory_bytes"):
                read[name] = {int(batch): value for batch, value in read[name].items()}
            return cls(**read)
        except ServingError:
            raise
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            why = f"{type(error).__name__}: {error}"
            raise ServingError(f"document must be the result of BatchingProfile.document: {why}.") from None

    def _known(self, batch: int) -> int:
        if not 1 <= batch <= self.max_batch:
            raise ServingError(f"batch must be from 1 to {self.max_batch}, the largest of the profile, got {batch}.")
        return batch


def _points(name: str, points: Any, *, above: bool = False) -> dict[int, float]:
    """Validate and sort a table by batch size."""
    try:
        pairs = dict(points)
    except (TypeError, ValueError):
        raise ServingError(
            f"{name} must be a mapping of batch sizes to numbers, such as {{1: 12.5}}, got {points!r}."
        ) from None
    for batch, value in pairs.items():
        if isinstance(batch, bool) or not isinstance(batch, Integral) or not 1 <= int(batch) <= _LARGEST:
            raise ServingError(f"{name} must have batch sizes from 1 to {_LARGEST}, got {batch!r}.")
        number = float(value) if isinstance(value, Real) else math.nan
        if isinstance(value, bool) or not math.isfinite(number) or number < 0 or (above and number == 0):
            raise ServingError(
                f"{name}[{batch}] must be finite and {'above' if above else 'at least'} 0, got {value!r}."
            )
    return {int(batch): float(pairs[batch]) for batch in sorted(pairs)}
