"""Work items of a search per group: consecutive groups of a shard, and the configurations to train on them."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["GROUP_COST", "Chunk", "WorkItem", "plan_items"]

GROUP_COST = 100
"""Cost of opening a group, in rows."""

# Work items per task slot: enough to balance the slots, few enough that starting a task costs little.
_ITEMS_PER_SLOT = 4


@dataclass(frozen=True, slots=True)
class Chunk:
    """Consecutive groups of a shard.

    Parameters
    ----------
    shard : int
        Number of the shard.
    first : int
        Place of the first group in the shard's index.
    groups : int
        Number of groups.
    rows : int
        Number of rows of the groups.
    """

    shard: int
    first: int
    groups: int
    rows: int

    @property
    def cost(self) -> int:
        """Relative time to train one configuration for each group."""
        return self.rows + GROUP_COST * self.groups


@dataclass(frozen=True, slots=True)
class WorkItem:
    """Work of one task: configurations to train for each group of a chunk.

    Parameters
    ----------
    chunk : Chunk
        Groups to train.
    configurations : tuple of int
        Places of the configurations in the search space.
    is_first : bool
        Whether it is the first item of its chunk, which reports groups that are not trained.
    """

    chunk: Chunk
    configurations: tuple[int, ...]
    is_first: bool = True

    @property
    def cost(self) -> int:
        """Relative time of the item."""
        return self.chunk.cost * len(self.configurations)


def plan_items(chunks: Sequence[Chunk], configurations: int, slots: int) -> tuple[WorkItem, ...]:
    """Split the work of a search into items, the most expensive first.

    A chunk that would take longer than a fair share of a slot's work is split by configuration, so that a large group
    does not determine the runtime.

    Parameters
    ----------
    chunks : sequence of Chunk
        Chunks of all shards.
    configurations : int
        Number of configurations.
    slots : int
        Number of tasks that run at the same time.

    Returns
    -------
    tuple of WorkItem
        Items whose configurations cover each chunk once.

    Examples
    --------
    >>> large, small = Chunk(0, 0, groups=1, rows=90_000), Chunk(0, 1, groups=50, rows=5_000)
    >>> items = plan_items([small, large], configurations=4, slots=4)
    >>> [(item.chunk.groups, item.configurations) for item in items]
    [(1, (0,)), (1, (1,)), (1, (2,)), (1, (3,)), (50, (0, 1)), (50, (2, 3))]
    """
    total = sum(chunk.cost for chunk in chunks) * configurations
    limit = max(1.0, total / (_ITEMS_PER_SLOT * slots))
    items = []
    for chunk in chunks:
        parts = min(configurations, max(1, round(chunk.cost * configurations / limit)))
        bounds = [configurations * part // parts for part in range(parts + 1)]
        items += [
            WorkItem(chunk, tuple(range(start, end)), is_first=start == 0) for start, end in itertools.pairwise(bounds)
        ]
    return tuple(sorted(items, key=lambda item: -item.cost))
