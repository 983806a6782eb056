"""States of a configuration that are written to the store and stay there, and its best epoch."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["CHECKPOINTS", "KEEPS", "best_epoch"]

#: Which states stay when a run has ended, the default first: the last one, that of the best epoch too, or those of all.
KEEPS = ("last", "best", "epochs")

#: When a state goes to the store, the default first: after each visit of a shard, when an epoch ends, or when all
#: epochs end that the procedure has granted so far.
CHECKPOINTS = ("visits", "epochs", "end")


def best_epoch(history: Sequence[Mapping[str, float]], metric: str, *, larger_is_better: bool) -> int | None:
    """Find the epoch with the best value of a metric, counted from 1; of equal ones the first.

    Return ``None`` where no epoch has a finite value.

    Examples
    --------
    >>> best_epoch([{"loss": 0.3}, {"loss": 0.1}, {"loss": 0.1}], "loss", larger_is_better=False)
    2
    """
    values = {epoch: metrics.get(metric, math.nan) for epoch, metrics in enumerate(history, 1)}
    known = [epoch for epoch, value in values.items() if math.isfinite(value)]
    if not known:
        return None
    return max(known, key=values.__getitem__) if larger_is_better else min(known, key=values.__getitem__)
