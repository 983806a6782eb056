"""Records whose features are numbers: a network that overflows, or divides by nothing, gives others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

__all__ = ["NOT_FINITE", "finite_records", "of_records"]

NOT_FINITE = "features are not finite"
"""Reason of a record of which a network makes infinities or not-a-number."""


def finite_records(
    records: int,
    vectors: Sequence[NDArray[np.floating]],
    tensors: Sequence[NDArray[np.generic]],
    counts: NDArray[np.int64] | None,
) -> NDArray[np.bool_]:
    """Return for each record whether its vectors are finite and its tensors free of NaN.

    A materialised tensor may hold infinities, as a mask of attention does.

    Parameters
    ----------
    vectors : sequence of array, each of shape (records, length)
        Features that must be finite.
    tensors : sequence of array, each of shape (records, ...), or (counts.sum(), ...)
        Tensors that must be free of NaN.
    counts : array of int, shape (records,), optional
        Items of each record; one each without it.

    Examples
    --------
    >>> finite_records(2, [np.array([[1.0, np.inf], [1.0, 2.0]])], [], None).tolist()
    [False, True]
    """
    finite = np.ones(records, np.bool_)
    for rows in vectors:
        finite &= np.isfinite(rows).all(axis=1)
    for items in tensors:
        if not np.issubdtype(items.dtype, np.floating) or not len(items):
            continue
        largest: NDArray[Any] = items.reshape(len(items), -1).max(axis=1, initial=-np.inf)  # not-a-number wins
        good = ~np.isnan(largest)
        starts = np.arange(records) if counts is None else np.cumsum(counts) - counts
        finite &= np.logical_and.reduceat(good, starts)
    return finite


def of_records(
    kept: NDArray[np.bool_], tensors: Sequence[NDArray[Any]], counts: NDArray[np.int64] | None
) -> list[NDArray[Any]]:
    """Keep the items of some records.

    Parameters
    ----------
    kept : array of bool, shape (records,)
        Whether a record stays.
    tensors, counts
        See :func:`finite_records`.
    """
    items = kept if counts is None else np.repeat(kept, counts)
    return [tensor[items] for tensor in tensors]
