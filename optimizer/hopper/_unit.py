"""Training units, and where and when they run."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Placement", "Unit"]


@dataclass(frozen=True, slots=True, order=True)
class Unit:
    """One sub-epoch: a configuration trained over one partition (``s_ij`` of Section 3.5.1).

    Attributes
    ----------
    config : str
    partition : int
    """

    config: str
    partition: int

    def __str__(self) -> str:
        return f"{self.config} on partition {self.partition}"


@dataclass(frozen=True, slots=True)
class Placement:
    """A unit on a worker, from one moment to another.

    Attributes
    ----------
    unit : Unit
    worker : str
    start, end : float
        Seconds since the epoch began.
    """

    unit: Unit
    worker: str
    start: float
    end: float

    def __str__(self) -> str:
        return f"{self.unit}, worker {self.worker}, {self.start:g} to {self.end:g} s"
