"""A model as measured on a machine: resident bytes, and seconds by depth."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from optimizer.errors import CerebroError
from optimizer.memory import ModelFootprint

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["ModelProfile"]


@dataclass(frozen=True, slots=True)
class ModelProfile:
    """A model's footprint and speed, as ``vista profile`` measures them.

    Parameters
    ----------
    model : str
    device : str
    threads : int
        Of one run of the network.
    batch_size : int
        Records of the batch that was measured.
    serialized_bytes : int
        Of the weights.
    runtime_bytes : int
        Resident bytes that opening the model and running batches adds to a bare worker, until no more is added.
    shared_bytes : int
        The part of them that is mapped from files, and resident once a node: weights and libraries.
    runtime_gpu_bytes : int
        Of the accelerator; 0 without one.
    input_seconds : float
        To make one record the network's input: decoding and preprocessing.
    seconds : tuple of (int, float)
        By depth: FLOPs from the input to a layer, and seconds a record to there, ascending.

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
            raise CerebroError(f"the profile of {self.model} has no seconds: measure at least one layer")

    @property
    def footprint(self) -> ModelFootprint:
        """For the memory planner."""
        return ModelFootprint(
            self.serialized_bytes, self.runtime_bytes, self.runtime_gpu_bytes, self.shared_bytes, self.batch_size
        )

    def between(self, start: int, end: int) -> float:
        """Seconds a record from one depth to another, in FLOPs from the input; linear between measured layers."""
        return max(0.0, self._to(end) - self._to(start))

    def _to(self, flops: int) -> float:
        points = ((0, 0.0), *self.seconds)
        for (low, before), (high, after) in pairwise(points):
            if flops <= high:
                return before + (after - before) * (flops - low) / max(1, high - low)
        # Beyond the deepest layer that was measured, at the mean speed to there.
        deepest, time = points[-1]
        return time * flops / max(1, deepest)

    def explain(self) -> str:
        """The figures in words.

        Returns
        -------
        str
            Several lines, without a newline at the end.
        """
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
        """Plain values, for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> ModelProfile:
        """The inverse of :meth:`to_dict`."""
        return cls(**values)
