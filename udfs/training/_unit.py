"""Where the random numbers of a training unit come from."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["initial_seed", "row_order"]


def initial_seed(seed: int, config: str) -> int:
    """Of the random numbers that a configuration's weights are drawn with, and all it draws later.

    Parameters
    ----------
    seed : int
        Of the run.
    config : str
        Id of the configuration.

    Returns
    -------
    int
        Below 2**31, which every framework takes.

    Examples
    --------
    >>> initial_seed(0, "c0") == initial_seed(0, "c1")
    False
    """
    digest = hashlib.blake2b(f"{seed}|{config}".encode(), digest_size=4).digest()
    return int.from_bytes(digest, "little") & 0x7FFF_FFFF


def row_order(seed: int, config: str, epoch: int, partition: int, rows: int) -> NDArray[np.int64]:
    """In which order a unit reads the rows of its shard: the same on any worker.

    Parameters
    ----------
    seed : int
        Of the run.
    config : str
    epoch : int
        From 0.
    partition, rows : int
        Of the shard.

    Returns
    -------
    array of int, shape (rows,)
        A permutation.

    Examples
    --------
    >>> sorted(row_order(0, "c0", 0, 1, 4).tolist())
    [0, 1, 2, 3]
    """
    return np.random.default_rng([initial_seed(seed, config), epoch, partition]).permutation(rows)
