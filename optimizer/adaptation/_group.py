"""Groups of candidates that train together, with the phases of their trunk."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Group", "Phase"]


@dataclass(frozen=True, slots=True)
class Phase:
    """Epochs of a group with the same use of the trunk.

    Attributes
    ----------
    loads, computes : tuple of str
        Layers of ``AdaptationPlan.trunk`` to read and to compute, in topological order.
    """

    epochs: int
    loads: tuple[str, ...]
    computes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Group:
    """Candidates that train together, with one read and pass of the trunk per batch, and a step per branch.

    A new phase begins where members end and the others need other layers of the trunk. ``compute_flops`` are those of
    the trunk and the branches over all records and epochs, and ``load_flops`` the cost of reading: the FLOPs that the
    worker could compute in that time. ``memory_bytes`` is the predicted peak.
    """

    members: tuple[str, ...]
    batch_size: int
    phases: tuple[Phase, ...]
    compute_flops: int
    load_flops: int
    memory_bytes: int

    @property
    def loads(self) -> tuple[str, ...]:
        """Layers of the trunk, with graph inputs, that some phase reads."""
        return tuple(dict.fromkeys(name for phase in self.phases for name in phase.loads))

    @property
    def computes(self) -> tuple[str, ...]:
        """Layers of the trunk that some phase computes."""
        return tuple(dict.fromkeys(name for phase in self.phases for name in phase.computes))

    @property
    def flops(self) -> int:
        """Total cost: FLOPs to compute, and the cost of reading in FLOPs."""
        return self.compute_flops + self.load_flops
