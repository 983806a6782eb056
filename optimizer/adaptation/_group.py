"""A group of candidates that train together, and how the trunk runs for it."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Group", "Phase"]


@dataclass(frozen=True, slots=True)
class Phase:
    """A run of epochs of a group in which the trunk runs in one way.

    Attributes
    ----------
    epochs : int
    loads, computes : tuple of str
        Layers of ``AdaptationPlan.trunk`` to read and to compute, in topological order.
    """

    epochs: int
    loads: tuple[str, ...]
    computes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Group:
    """Candidates that train together: one read and one pass of the trunk for each batch, and a step for each branch.

    Attributes
    ----------
    members : tuple of str
        Names of the candidates.
    batch_size : int
        Records a step.
    phases : tuple of Phase
        First to last. There is a further one where members end and the others need less of the trunk, or other layers.
    compute_flops, load_flops : int
        FLOPs computed, and missed while reading, over all records and epochs. The branches are among the first.
    memory_bytes : int
        Predicted peak.
    """

    members: tuple[str, ...]
    batch_size: int
    phases: tuple[Phase, ...]
    compute_flops: int
    load_flops: int
    memory_bytes: int

    @property
    def loads(self) -> tuple[str, ...]:
        """Layers of the trunk, graph inputs among them, that some phase reads."""
        return tuple(dict.fromkeys(name for phase in self.phases for name in phase.loads))

    @property
    def computes(self) -> tuple[str, ...]:
        """Layers of the trunk that some phase computes; the layers of the branches run in any plan."""
        return tuple(dict.fromkeys(name for phase in self.phases for name in phase.computes))

    @property
    def flops(self) -> int:
        """Compute and load together."""
        return self.compute_flops + self.load_flops
