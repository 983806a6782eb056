"""Random numbers of a training unit."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

__all__ = ["RANDOM_STREAM", "initial_seed", "random_stream", "row_order"]

RANDOM_STREAM = "_random_stream"
"""Hyperparameter of a configuration: the name of its random numbers. Configurations of one name are paired."""


def random_stream(config: str, params: Mapping[str, Any]) -> str:
    """Return the name of a configuration's random numbers, by default its id.

    Configurations with the same name draw the same initial weights, and read the rows of a shard in the same order.

    Examples
    --------
    >>> random_stream("c001", {"lr": 0.1}), random_stream("c001", {"lr": 0.1, RANDOM_STREAM: "repeat 0"})
    ('c001', 'repeat 0')
    """
    return str(params.get(RANDOM_STREAM, config))


def initial_seed(seed: int, config: str) -> int:
    """Compute the seed of a configuration's weights and of all its later random numbers.

    The seed is below 2**31, which every framework takes.

    Examples
    --------
    >>> initial_seed(0, "c0") == initial_seed(0, "c1")
    False
    """
    digest = hashlib.blake2b(f"{seed}|{config}".encode(), digest_size=4).digest()
    return int.from_bytes(digest, "little") & 0x7FFF_FFFF


def row_order(seed: int, config: str, epoch: int, partition: int, rows: int) -> NDArray[np.int64]:
    """Compute the order in which a unit reads the rows of its shard, the same on every worker.

    Examples
    --------
    >>> sorted(row_order(0, "c0", 0, 1, 4).tolist())
    [0, 1, 2, 3]
    """
    return np.random.default_rng([initial_seed(seed, config), epoch, partition]).permutation(rows)
