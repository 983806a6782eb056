"""Random places of parameters."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from udfs.training import TrainerError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

__all__ = ["random_places"]


def random_places(sizes: Sequence[int], count: int, seed: int) -> list[NDArray[np.bool_]]:
    """Mark ``count`` places of tensors at random, all with the same probability.

    Parameters
    ----------
    sizes : sequence of int
        Number of values of each tensor.

    Returns
    -------
    list of array of bool, each of shape (size,)
        True at the drawn places.

    Raises
    ------
    TrainerError
        There are no more places than ``count``.

    Examples
    --------
    >>> int(sum(marked.sum() for marked in random_places([3, 4], 2, seed=0)))
    2
    """
    total = sum(sizes)
    if count >= total:
        raise TrainerError(f"modules must leave a parameter to train, got all {total:,}. Remove a smaller part")
    marked = np.zeros(total, np.bool_)
    marked[np.random.default_rng(seed).choice(total, count, replace=False, shuffle=False)] = True
    return np.split(marked, np.cumsum(sizes)[:-1])
