"""Training units, and their place and time in a schedule."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Placement", "Unit"]


@dataclass(frozen=True, slots=True, order=True)
class Unit:
    """Training of one configuration over one partition: a sub-epoch (``s_ij`` of Section 3.5.1)."""

    config: str
    partition: int

    def __str__(self) -> str:
        return f"{self.config} on partition {self.partition}"


@dataclass(frozen=True, slots=True)
class Placement:
    """Unit on a worker, with its start and end.

    ``start`` and ``end`` are seconds since the epoch began.
    """

    unit: Unit
    worker: str
    start: float
    end: float

    def __str__(self) -> str:
        return f"{self.unit}, worker {self.worker}, {self.start:g} to {self.end:g} s"
