"""Windows that networks of different windows predict for together."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from udfs.sequences._windows import Windows
    from udfs.shards import Tensors
    from udfs.training import Folds

__all__ = ["common_windows", "window_parts"]


def common_windows(views: Sequence[Windows]) -> Windows:
    """Return windows that contain those of all views with the labels of the first one, at its stride.

    Labels of the last or the middle row do not depend on the length, so that these are the longest windows with such
    labels. Others are as long as those of the first view. They are not downsampled.

    Examples
    --------
    >>> from udfs.sequences import Windows
    >>> common_windows([Windows(4, stride=2), Windows(6, stride=3, downsample=2), Windows(9, label="max")])
    Windows(length=6, stride=2, downsample=1, method='every', label='last')
    """
    first = views[0]
    alike = [view for view in views if view.label == first.label] if first.label in {"last", "middle"} else [first]
    length = max(view.length for view in alike)
    return replace(first, length=length, stride=first.step, downsample=1, method="every")


def window_parts(windows: Tensors, offsets: NDArray[np.int64], length: int, folds: Folds) -> NDArray[np.int64]:
    """Split windows into two parts that share no rows: the halves of each series, or whole series if these are short.

    Parameters
    ----------
    windows : Tensors
        Result of :meth:`Windows.apply` on the rows of a shard.
    offsets : array of int64, shape (series + 1,)
        First row of each series.
    length : int
        Rows of a window.
    folds : Folds
        Two folds, which decide by the first window of a series which half or part it is.

    Returns
    -------
    array of int64, shape (windows,)
        0 or 1; -1 for a window with rows of both halves.
    """
    starts: Any = windows.inputs[0]
    first = starts.starts[:]
    _, begins, series = np.unique(
        np.searchsorted(offsets, first, side="right") - 1, return_index=True, return_inverse=True
    )
    if not len(begins):
        return np.empty(0, np.int64)
    sides = folds.assign([array[begins] for array in windows.inputs])
    places = np.searchsorted(offsets, first[begins], side="right")
    middles = (offsets[places - 1] + offsets[places]) // 2
    before, after = first + length <= middles[series], first >= middles[series]
    has_halves = np.bincount(series, before) * np.bincount(series, after) > 0
    halves = np.where(before, sides[series], np.where(after, 1 - sides[series], -1))
    parts: NDArray[np.int64] = np.where(has_halves[series], halves, sides[series])
    return parts
