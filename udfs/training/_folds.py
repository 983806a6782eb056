"""Folds of the rows of shards: each configuration of a cross-validation leaves the rows of one fold out."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

__all__ = ["HELD_OUT_FOLD", "Folds"]

HELD_OUT_FOLD = "_held_out_fold"
"""Hyperparameter of a configuration: the number of the fold whose rows it does not train on."""

_BLOCK = 256


@dataclass(frozen=True, slots=True)
class Folds:
    """Folds of equal probability, by a hash of the values that the network reads.

    Rows with equal inputs are in the same fold, so that no copy of a held-out row is trained on.

    Parameters
    ----------
    count : int
        Number of folds, at least 2.
    seed : int
        Seed of the hash. Default 0.

    Examples
    --------
    >>> inputs = [np.array([[1.0, 2.0], [3.0, 4.0], [1.0, 2.0]], np.float32)]
    >>> first, second, third = Folds(5).assign(inputs).tolist()
    >>> first == third
    True
    """

    count: int
    seed: int = 0

    def assign(self, inputs: Sequence[NDArray[Any]]) -> NDArray[np.int64]:
        """Return the fold of each row.

        Parameters
        ----------
        inputs : sequence of array, each of shape (rows, ...)
            Inputs of the network, as shards hold them or as the network reads them: eight-bit pixels count as shares
            of one.

        Returns
        -------
        array of int64, shape (rows,)
            Numbers from 0 to ``count - 1``.
        """
        rows = len(inputs[0])
        numbers = np.empty(rows, np.int64)
        key = f"{self.seed}".encode()
        for start in range(0, rows, _BLOCK):
            block = [_as_read(array[start : start + _BLOCK]) for array in inputs]
            for place in range(len(block[0])):
                digest = hashlib.blake2b(key=key, digest_size=8)
                for array in block:
                    digest.update(array[place].tobytes())
                numbers[start + place] = int.from_bytes(digest.digest(), "little") % self.count
        return numbers

    def training_order(
        self, order: NDArray[np.int64], folds: NDArray[np.int64], params: Mapping[str, Any]
    ) -> NDArray[np.int64]:
        """Leave the rows of a configuration's held-out fold out of the order in which it reads a shard.

        Examples
        --------
        >>> Folds(2).training_order(np.array([2, 0, 1]), np.array([0, 1, 1]), {HELD_OUT_FOLD: 0}).tolist()
        [2, 1]
        """
        kept: NDArray[np.int64] = order[folds[order] != params[HELD_OUT_FOLD]]
        return kept


def _as_read(array: NDArray[Any]) -> NDArray[Any]:
    """Convert a block to the bits that the network reads, with one zero for both signs."""
    if array.dtype == np.uint8:
        return array.astype(np.float32) / np.float32(255)
    return np.ascontiguousarray(array + array.dtype.type(0))
