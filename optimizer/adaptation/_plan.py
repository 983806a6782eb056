"""Plan of an adaptation, with the layers to materialise and the groups of candidates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from optimizer.adaptation._formatting import describe_group, format_count, format_flops, format_names
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
    """Plan of the adaptation of models that share frozen layers, made by :func:`optimizer.adaptation.plan`.

    ``materialised`` are the layers of ``trunk`` to keep on disk, each of which a group reads (V of the paper), and
    ``materialised_bytes`` their size for all records. ``trunk`` has the layers that no training changes, of all
    candidates, each once; ``trunk.expression(name)`` is a key for what is stored. ``names[candidate][layer]`` is the
    name in ``trunk``, and ``feeds`` are the layers that each candidate's branch reads. ``theoretical_speedup`` is the
    ratio of the FLOPs of current practice (``current_flops``: each candidate trains alone) to those of the layers that
    are not materialisable (equation 11). ``optimal`` is true if the solver has proven that the layers are optimal for
    these groups. ``notes`` state limitations.
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
        """FLOPs that all groups compute and miss while reading."""
        return sum(group.flops for group in self.groups)

    @property
    def makespan_flops(self) -> float:
        """FLOPs of the busiest worker: the larger of the mean and of the longest group.

        A group visits the workers one after the other, each with a part of the records, so one group alone leaves the
        other workers idle. Schedules of the hopper come close to this bound.
        """
        return max(self.flops / self.workers, *(group.flops for group in self.groups))

    @property
    def seconds(self) -> float:
        """Predicted seconds of a cycle, without those of materialising new records."""
        return self.makespan_flops / self.costs.flops_per_second

    def explain(self) -> str:
        """Describe the materialised layers, the groups, the predicted costs and the limitations."""
        workers = format_count(self.workers, "worker")
        what = f"{format_count(len(self.feeds), 'candidate')} in {format_count(len(self.groups), 'group')}"
        kept = (
            f"{format_names(self.materialised)}, {size(self.materialised_bytes)} on disk"
            if self.materialised
            else "nothing"
        )
        fewer = self.current_flops / max(self.flops, 1)
        doubt = "" if self.optimal else "; the solver ran out of time, so there may be better layers"
        current = f"{fewer:.2f} times fewer than current practice ({format_flops(self.current_flops)})"
        return "\n".join(
            [
                f"{what}, {format_count(self.records, 'record')}, {workers}",
                f"materialised: {kept}",
                *(line for number, group in enumerate(self.groups, 1) for line in describe_group(number, group)),
                f"FLOPs: {format_flops(self.flops)}, {current}",
                f"equation 11: {self.theoretical_speedup:.2f} times fewer if all frozen outputs were read at no cost",
                f"predicted: {self.seconds:,.1f} s on {workers}{doubt}",
                *(f"note: {note}" for note in self.notes),
            ]
        )
