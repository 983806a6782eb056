"""Measurements of an arm of the adaptation benchmark, cycle by cycle."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Cycle", "Measured", "Trained"]


@dataclass(frozen=True)
class Cycle:
    """One model selection over all labels that there are so far.

    Attributes
    ----------
    seconds, cpu : float
        On the clock, and of all processes that train.
    written, read : int
        Bytes to and from the disk; what the page cache has is not read.
    best : float
        Validation metric of the best candidate after its last epoch.
    """

    seconds: float
    cpu: float
    written: int
    read: int
    best: float


@dataclass(frozen=True)
class Measured:
    """All cycles of one arm.

    Attributes
    ----------
    arm, how : str
        Its name, and how it used the machine.
    initial : float
        Seconds before the first cycle: checkpoints of the initial models, plans.
    initial_written : int
        Bytes written meanwhile.
    cycles : tuple of Cycle
    """

    arm: str
    how: str
    initial: float
    initial_written: int
    cycles: tuple[Cycle, ...]

    @property
    def seconds(self) -> float:
        """Seconds of all cycles, without the preparation before the first."""
        return sum(cycle.seconds for cycle in self.cycles)

    @property
    def total(self) -> float:
        """Seconds of the preparation and all cycles: figure 6 A."""
        return self.initial + self.seconds

    @property
    def written(self) -> int:
        """Bytes written by the preparation and all cycles."""
        return self.initial_written + sum(cycle.written for cycle in self.cycles)

    @property
    def read(self) -> int:
        """Bytes of all cycles."""
        return sum(cycle.read for cycle in self.cycles)

    def busy(self, cores: int) -> float:
        """CPU seconds over seconds and cores: figure 11 has a GPU's."""
        return sum(cycle.cpu for cycle in self.cycles) / max(self.seconds, 1e-9) / cores


@dataclass(frozen=True, slots=True)
class Trained:
    """One candidate in one cycle: its last validation metric, and its losses by epoch."""

    metric: float
    losses: tuple[float, ...]
