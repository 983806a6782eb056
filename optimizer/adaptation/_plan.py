"""The plan of an adaptation: what to materialise, and which candidates train together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from optimizer.errors import InvalidArgumentError, nearest

from . import _explain

if TYPE_CHECKING:
    from collections.abc import Mapping

    from optimizer.graph import LayerGraph

    from ._candidate import Costs

__all__ = ["AdaptationPlan", "Group", "Phase"]


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


@dataclass(frozen=True, slots=True)
class AdaptationPlan:
    """How to adapt models that share frozen layers. Made by :func:`optimizer.adaptation.plan`.

    Attributes
    ----------
    materialised : tuple of str
        The layers of ``trunk`` to keep on disk, in topological order: V of the paper. Every one is read by a group.
    groups : tuple of Group
        In the order of their first members.
    theoretical_speedup : float
        Equation 11: all FLOPs of current practice over those of the layers that are not materialisable.
    trunk : LayerGraph
        The layers that no training changes, of all candidates, each once. ``trunk.expression(name)`` is a key for
        what is stored.
    names : mapping of str to mapping of str to str
        ``names[candidate][layer]`` is the name in ``trunk`` of a candidate's materialisable layer.
    feeds : mapping of str to tuple of str
        For each candidate the layers of ``trunk`` that its branch reads.
    materialised_bytes : int
        On disk, for all records.
    current_flops : int
        What current practice takes: each candidate alone, from the records, in every epoch.
    records, workers : int
    costs : Costs
    optimal : bool
        Whether the solver proved that no other layers are better for these groups.
    notes : tuple of str
        What the plan cannot do, and why.
    """

    materialised: tuple[str, ...]
    groups: tuple[Group, ...]
    theoretical_speedup: float
    trunk: LayerGraph
    names: Mapping[str, Mapping[str, str]]
    feeds: Mapping[str, tuple[str, ...]]
    materialised_bytes: int
    current_flops: int
    records: int
    workers: int
    costs: Costs
    optimal: bool
    notes: tuple[str, ...]

    @property
    def flops(self) -> int:
        """What all groups compute and miss while reading."""
        return sum(group.flops for group in self.groups)

    @property
    def makespan_flops(self) -> float:
        """What the busiest worker computes and misses: no less than the mean, nor than any group.

        A group visits the workers one after the other, each with a part of the records. So one group keeps one worker
        busy, and the others wait. Schedules of the hopper come near this bound.
        """
        return max(self.flops / self.workers, *(group.flops for group in self.groups))

    @property
    def seconds(self) -> float:
        """Predicted seconds of a cycle, without materialising the new records."""
        return self.makespan_flops / self.costs.flops_per_second

    def group_of(self, candidate: str) -> Group:
        """Find the group that a candidate trains in.

        Raises
        ------
        InvalidArgumentError
            No such candidate.
        """
        for group in self.groups:
            if candidate in group.members:
                return group
        raise InvalidArgumentError(f"no candidate {candidate!r}{nearest(candidate, self.feeds)}")

    def explain(self) -> str:
        """Describe what is materialised, each group, the predicted costs and what the plan cannot do."""
        return _explain.explain(self)
