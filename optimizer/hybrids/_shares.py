"""Shares of workers in an epoch that they train together: which shards, and which rows of each step."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from numpy.typing import NDArray

__all__ = ["balance_shards", "interleave_rows"]


def balance_shards(holders: Mapping[str, Collection[int]], rows: Mapping[int, int]) -> dict[str, tuple[int, ...]]:
    """Assign each shard to one of the workers that hold it, so that they have about equally many rows.

    Parameters
    ----------
    holders : mapping of str to collection of int
        Shards that each worker holds.
    rows : mapping of int to int
        Number of rows by shard.

    Returns
    -------
    dict of str to tuple of int
        Shards by worker, in the order of the workers' names, without workers that get none. Shards that no worker holds
        are left out.

    Examples
    --------
    >>> balance_shards({"w1": [0, 1], "w0": [1, 2], "w2": []}, {0: 10, 1: 10, 2: 10})
    {'w0': (1, 2), 'w1': (0,)}
    """
    chosen: dict[str, list[int]] = {worker: [] for worker in sorted(holders)}

    def load(worker: str) -> tuple[int, str]:
        return sum(rows[shard] for shard in chosen[worker]), worker

    # Shards with the fewest holders first: the others can even out what follows.
    known = {shard: [worker for worker in chosen if shard in holders[worker]] for shard in rows}
    for shard in sorted(rows, key=lambda shard: (len(known[shard]), -rows[shard], shard)):
        if known[shard]:
            chosen[min(known[shard], key=load)].append(shard)
    return {worker: tuple(sorted(shards)) for worker, shards in chosen.items() if shards}


def interleave_rows(rows: Sequence[int], batch_size: int, *, drop_last: bool = False) -> NDArray[np.int64]:
    """Divide the steps of an epoch among shards, in proportion to their rows.

    The rows of all shards form one sequence, in which those of each shard are spread evenly; a step reads the next
    ``batch_size`` of it. So the steps depend on the shards alone, not on the workers that hold them.

    Parameters
    ----------
    rows : sequence of int
        Number of rows of each shard.
    batch_size : int
        Rows of a step; the last one may have fewer.
    drop_last : bool
        Whether a short last step is left out. Default ``False``.

    Returns
    -------
    array of int, shape (steps, shards)
        Number of rows that each step reads of each shard.

    Examples
    --------
    >>> interleave_rows([6, 3], 4).tolist()
    [[3, 1], [2, 2], [1, 0]]
    """
    keys = np.concatenate([(np.arange(count) + 0.5) / count for count in rows if count] or [np.empty(0)])
    owners = np.repeat(np.arange(len(rows)), rows)
    sequence = owners[np.argsort(keys, kind="stable")]
    steps = len(sequence) // batch_size if drop_last else -(-len(sequence) // batch_size)
    shares = np.zeros((steps, len(rows)), np.int64)
    used = sequence[: steps * batch_size]
    np.add.at(shares, (np.arange(len(used)) // batch_size, used), 1)
    return shares
