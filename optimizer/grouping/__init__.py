"""Planning of a search with one model per group: work items of similar cost."""

from optimizer.grouping._plan import GroupPlan
from optimizer.grouping._work_items import GROUP_COST, Chunk, WorkItem, plan_items

__all__ = ["GROUP_COST", "Chunk", "GroupPlan", "WorkItem", "plan_items"]
