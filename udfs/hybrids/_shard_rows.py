"""Rows of several shards that one worker reads in an epoch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from udfs.shards import Tensors

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

__all__ = ["ShardRows", "gather_rows"]


@dataclass(frozen=True, slots=True)
class ShardRows:
    """Rows of a shard as a configuration sees them, and the order in which it reads them.

    Parameters
    ----------
    partition : int
        Number of the shard.
    rows : Tensors
        Rows of the shard.
    order : array of int
        Order in which they are read; rows that are left out of training are not in it.
    """

    partition: int
    rows: Tensors
    order: NDArray[np.int64]


def gather_rows(shards: Sequence[ShardRows], picked: Sequence[NDArray[np.int64]]) -> Tensors:
    """Copy rows of several shards into one batch.

    Parameters
    ----------
    shards : sequence of ShardRows
        The shards.
    picked : sequence of array of int
        Places of the rows to copy, for each shard.

    Returns
    -------
    Tensors
        Rows of the first shard, then those of the second, and so on.

    Examples
    --------
    >>> tensors = [Tensors((np.full((3, 1), number),), (np.arange(3),), 3) for number in (4, 5)]
    >>> shards = [ShardRows(number, rows, np.arange(3)) for number, rows in enumerate(tensors)]
    >>> batch = gather_rows(shards, [np.array([2, 0]), np.array([1])])
    >>> batch.inputs[0].ravel().tolist(), batch.labels[0].tolist(), batch.rows
    ([4, 4, 5], [2, 0, 1], 3)
    """
    used = [(shard.rows, places) for shard, places in zip(shards, picked, strict=True) if len(places)]
    if not used:
        used = [(shards[0].rows, np.empty(0, np.int64))]

    def joined(arrays: list[NDArray[np.generic]]) -> NDArray[np.generic]:
        return arrays[0] if len(arrays) == 1 else np.concatenate(arrays)

    first, _ = used[0]
    weights = [rows.weights[places] for rows, places in used if rows.weights is not None]
    return Tensors(
        tuple(joined([rows.inputs[at][places] for rows, places in used]) for at in range(len(first.inputs))),
        tuple(joined([rows.labels[at][places] for rows, places in used]) for at in range(len(first.labels))),
        sum(len(places) for _, places in used),
        np.concatenate(weights) if weights else None,
        first.names,
    )
