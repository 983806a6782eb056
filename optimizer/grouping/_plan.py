"""Plan of a search per group, for people to read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from optimizer.notebook import ExplainedInNotebooks

if TYPE_CHECKING:
    from collections.abc import Mapping

    from optimizer.grouping._work_items import WorkItem

__all__ = ["GroupPlan"]


@dataclass(frozen=True, slots=True)
class GroupPlan(ExplainedInNotebooks):
    """Groups, work items and estimated time of a search per group.

    Parameters
    ----------
    group_by : tuple of str
        Columns of the keys.
    levels : tuple of int
        Number of groups at each level; level 0 is the global model, and the last one has the groups of all columns.
    sizes : mapping of str to int
        Rows of the smallest, the median and the largest group: ``"least"``, ``"median"`` and ``"most"``.
    items : tuple of WorkItem
        Work items, the most expensive first.
    configurations, epochs, slots : int
        Number of configurations, of epochs of each, and of tasks at the same time.
    seconds_per_row : float, optional
        Seconds to train one row for one epoch. Default ``None``: the plan has no time.
    """

    group_by: tuple[str, ...]
    levels: tuple[int, ...]
    sizes: Mapping[str, int]
    items: tuple[WorkItem, ...]
    configurations: int
    epochs: int
    slots: int
    seconds_per_row: float | None = None

    @property
    def seconds(self) -> float | None:
        """Estimated seconds of training: the longest item, or the mean work of a slot if that is longer."""
        if self.seconds_per_row is None or not self.items:
            return None
        costs = [item.cost for item in self.items]
        return max(*costs, sum(costs) / self.slots) * self.epochs * self.seconds_per_row

    def explain(self) -> str:
        """Describe the plan.

        Examples
        --------
        >>> from optimizer.grouping import Chunk, plan_items
        >>> items = plan_items([Chunk(0, 0, 3, 30)], 2, 1)
        >>> print(GroupPlan(("state",), (1, 2), {"least": 10, "median": 10, "most": 10}, items, 2, 5, 1).explain())
        2 groups by state, with 10 to 10 rows (median 10)
          level 0: 1 global model as fallback
          2 configurations of 5 epochs each: 6 models to train
          2 work items, in 1 task at a time; the largest has 50% of the work
        """
        least, median, most = (self.sizes[name] for name in ("least", "median", "most"))
        named = f"{self.levels[-1]:,} groups by {', '.join(self.group_by)}"
        lines = [f"{named}, with {least:,} to {most:,} rows (median {median:,})"]
        for level, count in enumerate(self.levels[:-1]):
            name = "global model" if not level else f"groups by {', '.join(self.group_by[:level])}"
            lines.append(f"  level {level}: {count:,} {name} as fallback")
        models = sum(item.chunk.groups * len(item.configurations) for item in self.items)
        lines.append(f"  {self.configurations} configurations of {self.epochs} epochs each: {models:,} models to train")
        costs = [item.cost for item in self.items]
        share = max(costs, default=0) / max(sum(costs), 1)
        tasks = "1 task" if self.slots == 1 else f"{self.slots} tasks"
        lines.append(f"  {len(self.items)} work items, in {tasks} at a time; the largest has {share:.0%} of the work")
        if self.seconds is not None:
            lines.append(f"  estimated time: {self.seconds:,.0f} s")
        return "\n".join(lines)
