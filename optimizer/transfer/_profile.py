"""Measurements of a model on a machine: resident bytes, and seconds by depth."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from optimizer.errors import CerebroError
from optimizer.memory import ModelFootprint
from optimizer.notebook import ExplainedInNotebooks

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["ModelProfile"]


@dataclass(frozen=True, slots=True)
class ModelProfile(ExplainedInNotebooks):
    """Measured footprint and speed of a model, as ``vista profile`` reports them.

    Parameters
    ----------
    threads : int
        Threads of one run of the network.
    batch_size : int
        Records of the measured batch.
    serialized_bytes : int
        Bytes of the weights.
    runtime_bytes : int
        Resident bytes that opening the model and running batches add to a bare worker, once they stop growing.
    shared_bytes : int
        The part of ``runtime_bytes`` that is mapped from files and resident once per node: weights and libraries.
    runtime_gpu_bytes : int
        Bytes on the accelerator; 0 without one.
    input_seconds : float
        Seconds to make one record the network's input: decoding and preprocessing.
    seconds : tuple of (int, float)
        Depth of each measured layer, in FLOPs from the input, and seconds per record up to it; ascending.

    Raises
    ------
    CerebroError
        No depth was measured.

    Examples
    --------
    >>> profile = ModelProfile("cnn", "cpu", 1, 32, 100, 900, 200, 0, 0.004, ((1000, 0.01), (3000, 0.02)))
    >>> round(profile.between(1000, 2000), 4), round(profile.between(0, 500), 4)
    (0.005, 0.005)
    """

    model: str
    device: str
    threads: int
    batch_size: int
    serialized_bytes: int
    runtime_bytes: int
    shared_bytes: int
    runtime_gpu_bytes: int
    input_seconds: float
    seconds: tuple[tuple[int, float], ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "seconds", tuple((int(flops), float(time)) for flops, time in self.seconds))
        if not self.seconds:
            raise CerebroError(
                f"seconds must have at least one measured layer in the profile of {self.model}, got none."
            )

    @property
    def footprint(self) -> ModelFootprint:
        """Footprint for the memory planner."""
        return ModelFootprint(
            self.serialized_bytes, self.runtime_bytes, self.runtime_gpu_bytes, self.shared_bytes, self.batch_size
        )

    def between(self, start: int, end: int) -> float:
        """Interpolate linearly the seconds per record from one depth to another, in FLOPs from the input."""
        return max(0.0, self._to(end) - self._to(start))

    def _to(self, flops: int) -> float:
        points = ((0, 0.0), *self.seconds)
        for (low, before), (high, after) in pairwise(points):
            if flops <= high:
                return before + (after - before) * (flops - low) / max(1, high - low)
        # Beyond the deepest measured layer, assume the mean speed up to it.
        deepest, time = points[-1]
        return time * flops / max(1, deepest)

    def explain(self) -> str:
        """Describe the measurements."""
        mega = 1e6
        deepest, time = self.seconds[-1]
        threads = f"{self.threads} {'thread' if self.threads == 1 else 'threads'}"
        private = (self.runtime_bytes - self.shared_bytes) / mega
        lines = [
            f"{self.model} on {self.device}, batches of {self.batch_size}, {threads}",
            f"  weights:              {self.serialized_bytes / mega:,.1f} MB",
            f"  a worker's own:       {private:,.1f} MB (framework, activations, weights that are not shared)",
            f"  once a node:          {self.shared_bytes / mega:,.1f} MB (mapped weights and libraries)",
        ]
        if self.runtime_gpu_bytes:
            lines.append(f"  on the accelerator:   {self.runtime_gpu_bytes / mega:,.1f} MB")
        lines += [
            f"  a record's input:     {1000 * self.input_seconds:,.2f} ms",
            f"  a record's inference: {1000 * time:,.2f} ms, {deepest / max(time, 1e-12) / 1e9:,.1f} GFLOP/s",
        ]
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> ModelProfile:
        """Build a profile from :meth:`to_dict`'s values."""
        return cls(**values)
