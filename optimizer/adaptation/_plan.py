"""The plan of an adaptation: what to materialise, and which candidates train together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from optimizer.adaptation._explain import count, group_lines, listed, plural
from optimizer.errors import InvalidArgumentError, nearest
from optimizer.notebook import ExplainedInNotebooks
from optimizer.sizes import size

if TYPE_CHECKING:
    from collections.abc import Mapping

    from optimizer.adaptation._candidate import Costs
    from optimizer.adaptation._group import Group
    from optimizer.graph import LayerGraph

__all__ = ["AdaptationPlan"]


@dataclass(frozen=True, slots=True)
class AdaptationPlan(ExplainedInNotebooks):
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
        workers = plural(self.workers, "worker")
        what = f"{plural(len(self.feeds), 'candidate')} in {plural(len(self.groups), 'group')}"
        kept = (
            f"{listed(self.materialised)}, {size(self.materialised_bytes)} on disk" if self.materialised else "nothing"
        )
        fewer = self.current_flops / max(self.flops, 1)
        doubt = "" if self.optimal else "; the solver ran out of time, so there may be better layers"
        current = f"{fewer:.2f} times fewer than current practice ({count(self.current_flops)})"
        return "\n".join(
            [
                f"{what}, {plural(self.records, 'record')}, {workers}",
                f"materialised: {kept}",
                *(line for number, group in enumerate(self.groups, 1) for line in group_lines(number, group)),
                f"FLOPs: {count(self.flops)}, {current}",
                f"equation 11: {self.theoretical_speedup:.2f} times fewer if all frozen outputs were read at no cost",
                f"predicted: {self.seconds:,.1f} s on {workers}{doubt}",
                *(f"note: {note}" for note in self.notes),
            ]
        )
