"""Batching profile of a model: what a batch of each size takes, on one kind of machine."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any

import numpy as np

from optimizer.arguments import real, whole
from optimizer.serving._errors import ServingError
from optimizer.serving._monotone import at_each_batch

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

__all__ = ["BatchingProfile"]

# Tables hold every batch up to the largest: a batch of images beyond this is a mistake of units.
_LARGEST = 1 << 16
_ROUNDING = 1e-6


@dataclass(frozen=True, slots=True)
class BatchingProfile:
    """Latency and memory of a model by batch size (section 3.2.1).

    Between measured batches both are interpolated; no batch beyond the largest measured one is ever used. Latency is
    made never to fall with the batch (isotonic regression), memory by its running maximum. Throughput may fall: which
    batch is the best one is looked up, not assumed to be the largest.

    Parameters
    ----------
    latency_ms : mapping of int to float
        Mean milliseconds of a batch, by its size. Batch 1 is needed.
    deviation_ms : mapping of int to float, optional
        Standard deviations, at any of the sizes. Default 0.
    memory_bytes : mapping of int to int, optional
        Bytes with the model loaded while a batch runs, at any sizes. Default 0.
    preprocess_ms, postprocess_ms : float
        Of one request, beside the batch: they shorten its budget and do not occupy the backend. Default 0.
    hardware : str
        Machine that this was measured on. Default ``""``: not said.
    threads : int
        Default 1.

    Raises
    ------
    ServingError
        Batch 1 is missing, or a value is negative, zero, NaN or infinite.

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
            raise ServingError(f"latency_ms has batches {known}: measure batch 1 too, no plan can do without")
        largest = max(latency)
        deviation = _points("deviation_ms", self.deviation_ms)
        memory = _points("memory_bytes", self.memory_bytes)
        for name, points in (("deviation_ms", deviation), ("memory_bytes", memory)):
            if points and max(points) > largest:
                raise ServingError(f"{name} has batch {max(points)}, latency_ms ends at {largest}: measure both")
        real("preprocess_ms", self.preprocess_ms, 0)
        real("postprocess_ms", self.postprocess_ms, 0)
        whole("threads", self.threads)
        held = np.ceil(np.maximum.accumulate(at_each_batch(memory or {1: 0.0}, largest)) - _ROUNDING)
        held.flags.writeable = False
        tables = {
            "latency_ms": latency,
            "deviation_ms": deviation,
            "memory_bytes": {batch: int(number) for batch, number in memory.items()},
            "latencies": at_each_batch(latency, largest, fitted=True),
            "deviations": at_each_batch(deviation or {1: 0.0}, largest),
            "memory": held,
        }
        for name, value in tables.items():
            object.__setattr__(self, name, value)

    @classmethod
    def from_line(cls, per_item_ms: float, fixed_ms: float, max_batch: int, **options: Any) -> BatchingProfile:
        """Make the profile ``l(b) = per_item_ms * b + fixed_ms``.

        Parameters
        ----------
        per_item_ms, fixed_ms : float
        max_batch : int
        **options
            Of the constructor.

        Returns
        -------
        BatchingProfile

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

    @classmethod
    def from_samples(cls, samples_ms: Mapping[int, Sequence[float]], **options: Any) -> BatchingProfile:
        """Make a profile of repeated measurements.

        Parameters
        ----------
        samples_ms : mapping of int to sequence of float
            Milliseconds of each run, by batch size.
        **options
            Of the constructor.

        Returns
        -------
        BatchingProfile

        Raises
        ------
        ServingError
            A size without a measurement, or what the constructor refuses.

        Examples
        --------
        >>> profile = BatchingProfile.from_samples({1: [9.0, 11.0], 4: [30.0, 34.0]})
        >>> profile.latency_ms[4], round(profile.deviation_ms[1], 3)
        (32.0, 1.414)
        """
        empty = [batch for batch, runs in samples_ms.items() if not len(runs)]
        if empty:
            raise ServingError(f"samples_ms[{empty[0]}] is empty: measure it at least once, or leave it out")
        means = {batch: float(np.mean(runs)) for batch, runs in samples_ms.items()}
        deviations = {batch: float(np.std(runs, ddof=1)) for batch, runs in samples_ms.items() if len(runs) > 1}
        return cls(means, deviations, **options)

    @property
    def max_batch(self) -> int:
        """Largest batch that was measured."""
        return len(self.latencies) - 1

    def throughput(self, batch: int) -> float:
        """Compute requests per second of batches of this size, one after the other."""
        return 1000 * batch / float(self.latencies[self._known(batch)])

    def best_batch(self, limit_ms: float, memory_bytes: float = math.inf) -> int:
        """Find the batch with the highest throughput within a time, the smallest of several; 0 where none is.

        Parameters
        ----------
        limit_ms : float
            For the batch alone: half of a session's budget where it has the backend to itself.
        memory_bytes : float
            Default infinite.
        """
        # A limit computed as 2 l(b) / 2 must still allow b.
        fits = (self.latencies <= limit_ms * (1 + 1e-12)) & (self.memory <= memory_bytes)
        fits[0] = False
        if not fits.any():
            return 0
        batches = np.arange(len(self.latencies))
        rates = np.divide(batches, self.latencies, out=np.zeros(len(batches)), where=fits)
        return int(np.argmax(np.round(rates, 12)))

    def with_margin(self, deviations: float) -> BatchingProfile:
        """Plan for the mean and this many standard deviations instead of the mean."""
        real("deviations", deviations, 0)
        slower = np.maximum.accumulate(self.latencies + deviations * self.deviations)
        batches = sorted({*self.latency_ms, *self.deviation_ms})
        return self._changed({batch: float(slower[batch]) for batch in batches}, {})

    def at_speed(self, speed: float) -> BatchingProfile:
        """Give the profile of a backend that is ``speed`` times as fast, in batches and beside them."""
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
        """Refuse a machine that this was not measured on.

        Raises
        ------
        ServingError
            The hardware or the number of threads differs from what the profile says.
        """
        if self.hardware and (hardware, threads) != (self.hardware, self.threads):
            raise ServingError(
                f"the profile was measured on {self.hardware!r} with {self.threads} threads, and this is {hardware!r} "
                f"with {threads}: measure it here"
            )

    def document(self) -> dict[str, Any]:
        """Write the profile as a value for JSON."""
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
        """Read what :meth:`document` wrote.

        Raises
        ------
        ServingError
            A key that is missing or unknown, or a batch that is no whole number.
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
            raise ServingError(f"no profile ({why}): write one by BatchingProfile.document") from None

    def _known(self, batch: int) -> int:
        if not 1 <= batch <= self.max_batch:
            raise ServingError(f"batch {batch} is not in the profile: 1 to {self.max_batch}")
        return batch

    def _changed(self, latency: Mapping[int, float], deviation: Mapping[int, float]) -> BatchingProfile:
        rest = (self.memory_bytes, self.preprocess_ms, self.postprocess_ms, self.hardware, self.threads)
        return BatchingProfile(latency, deviation, *rest)


def _points(name: str, given: Any, *, above: bool = False) -> dict[int, float]:
    """Check a table by batch, and sort it."""
    try:
        pairs = dict(given)
    except (TypeError, ValueError):
        raise ServingError(f"{name}={given!r}: a mapping of batch sizes to numbers, such as {{1: 12.5}}") from None
    for batch, value in pairs.items():
        if isinstance(batch, bool) or not isinstance(batch, Integral) or not 1 <= int(batch) <= _LARGEST:
            raise ServingError(f"{name} has batch {batch!r}: a whole number from 1 to {_LARGEST}")
        number = float(value) if isinstance(value, Real) else math.nan
        if isinstance(value, bool) or not math.isfinite(number) or number < 0 or (above and number == 0):
            raise ServingError(f"{name}[{batch}]={value!r}: a finite number, {'above' if above else 'at least'} 0")
    return {int(batch): float(pairs[batch]) for batch in sorted(pairs)}
