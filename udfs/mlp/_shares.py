"""Shares of the tasks in each global batch."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

__all__ = ["batch_shares"]


def batch_shares(rows: Sequence[int], size: int) -> NDArray[np.int64]:
    """Cut an epoch into global batches, each with rows of every task in proportion to what it holds.

    Every batch except the last one has exactly ``size`` rows, and every row is in one batch: an epoch is the same
    number of steps for all tasks, however uneven their partitions. ``rows`` has the number of rows of each task; the
    result, of shape ``(steps, tasks)``, those in each step.

    Examples
    --------
    >>> batch_shares([6, 3, 0], 4).tolist()
    [[3, 1, 0], [2, 2, 0], [1, 0, 0]]
    """
    total = sum(rows)
    if not total:
        return np.zeros((0, len(rows)), np.int64)
    # Row i of a task's n comes after the part (i + 1/2) / n of the epoch.
    after = np.concatenate([(np.arange(count) + 0.5) / max(count, 1) for count in rows])
    owner = np.repeat(np.arange(len(rows)), rows)[np.argsort(after, kind="stable")]
    batch = np.arange(total) // size
    counts = np.bincount(batch * len(rows) + owner, minlength=(int(batch[-1]) + 1) * len(rows))
    return counts.reshape(-1, len(rows))
