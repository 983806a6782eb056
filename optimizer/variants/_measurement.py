"""Measured accuracy and costs of a variant."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from optimizer.arguments import real, whole
from optimizer.errors import InvalidArgumentError

if TYPE_CHECKING:
    from optimizer.approximate import CostCard, Variant

__all__ = ["MEASURES", "Measurement"]

MEASURES = {
    "memory": "resident_bytes",
    "storage": "stored_bytes",
    "latency": "latency",
    "compute": "gflop",
    "load": "load_seconds",
}
"""Costs by which variants are compared, and the attributes that have them."""


@dataclass(frozen=True, slots=True)
class Measurement:
    """Accuracy and costs of a variant, as measured on one machine.

    Parameters
    ----------
    name : str
        Name of the variant, unique in its catalog.
    accuracy : float
        Share of correct answers on the validation rows.
    rows : int
        Number of validation rows.
    low, high : float
        Confidence interval of the accuracy, 95 %.
    stored_bytes : int
        Size of the weights on disk.
    resident_bytes : int
        Memory of the loaded weights and of the activations of one image.
    gflop : float
        10^9 floating-point operations per image, two for each multiply-accumulate.
    load_seconds : float
        Time from the file to a network that answers.
    run_seconds : mapping of int to float
        Time of a batch, by batch size.
    image_size : int
        Height and width of the images, in pixels.

    Raises
    ------
    InvalidArgumentError
        A value is not valid.

    Examples
    --------
    >>> small = Measurement("8 bits", 0.9, 400, 0.87, 0.93, 3_500_000, 9_000_000, 0.6, 0.02, {1: 0.02, 32: 0.5}, 224)
    >>> small.latency
    0.02
    """

    name: str
    accuracy: float
    rows: int
    low: float
    high: float
    stored_bytes: int
    resident_bytes: int
    gflop: float
    load_seconds: float
    run_seconds: Mapping[int, float]
    image_size: int

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise InvalidArgumentError(f"name must be a non-empty str, got {self.name!r}.")
        for name in ("accuracy", "low", "high"):
            real(name, getattr(self, name), 0, 1)
        for name in ("rows", "stored_bytes", "resident_bytes", "image_size"):
            whole(name, getattr(self, name))
        for name in ("gflop", "load_seconds"):
            real(name, getattr(self, name), 0)
        if not isinstance(self.run_seconds, Mapping) or not self.run_seconds:
            raise InvalidArgumentError(f"run_seconds must be a non-empty mapping, got {self.run_seconds!r}.")
        for size, seconds in self.run_seconds.items():
            whole("a batch size of run_seconds", size)
            real("run_seconds", seconds, 0)

    @property
    def latency(self) -> float:
        """Time of the smallest batch, in seconds."""
        return self.run_seconds[min(self.run_seconds)]

    def variant(self, card: CostCard, *, sent_bytes: int | None = None) -> Variant:
        """Return the variant for `optimizer.approximate`, with the energy and the dollars of a cost card.

        Parameters
        ----------
        card : CostCard
            Joules per GFLOP and per MB loaded, and the price of the cloud.
        sent_bytes : int, optional
            Bytes of a request to the cloud. Default: the variant never runs there.

        Returns
        -------
        Variant
            Energy in joules, time in seconds, money in dollars.
        """
        return card.variant(
            self.name,
            accuracy=self.accuracy,
            gflop=self.gflop,
            memory_bytes=self.resident_bytes,
            sent_bytes=sent_bytes,
        )
