"""Held-out rows of a shard as all candidates of an ensemble predict them: rows, or windows of its series."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from udfs.sequences import Windows, window_parts
from udfs.training import TrainerError, viewed_rows

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from udfs.shards import RowView, Tensors
    from udfs.training import Folds

__all__ = ["HeldOutRows", "HeldOutWindows", "held_out_rows"]


@dataclass(frozen=True, slots=True, eq=False)
class HeldOutRows:
    """First rows of a shard, the part of each, and their labels and weights."""

    rows: Tensors
    part: NDArray[np.int64]
    labels: NDArray[Any]
    weights: NDArray[np.float32] | None

    def batches(self, view: RowView | None, size: int) -> Iterator[tuple[NDArray[Any], ...]]:
        """Yield the inputs of a candidate's network, batch by batch.

        Raises
        ------
        TrainerError
            The candidate's view makes another number of rows.
        """
        seen = viewed_rows(view, self.rows)
        if seen.rows != self.rows.rows:
            raise TrainerError(
                f"view must keep the rows of the data in an ensemble, got {self.rows.rows:,} rows as {seen.rows:,}. "
                "Leave the view out of trainer_fn"
            )
        for start in range(0, len(self.part), size):
            yield tuple(array[start : min(start + size, len(self.part))] for array in seen.inputs)


@dataclass(frozen=True, slots=True, eq=False)
class HeldOutWindows:
    """Windows of a shard that contain those of all candidates, the part of each, and their labels.

    ``windows`` has all windows of the shard with the labels of their rows, ``picked`` the numbers of those to predict.
    """

    windows: Tensors
    picked: NDArray[np.int64]
    part: NDArray[np.int64]
    labels: NDArray[Any]
    weights: None = None

    def batches(self, view: RowView | None, size: int) -> Iterator[tuple[NDArray[Any], ...]]:
        """Yield the inputs of a candidate's network, batch by batch.

        Raises
        ------
        TrainerError
            The candidate reads no windows, or labels them differently.
        """
        if not isinstance(view, Windows):
            raise TrainerError(f"view must be Windows for all members of an ensemble or for none, got {view!r}.")
        for start in range(0, len(self.picked), size):
            picked = self.picked[start : start + size]
            if not self._has_labels_of(view, picked, self.labels[start : start + size]):
                raise TrainerError(
                    f"view must label windows as that of the best configuration does, got other labels by {view}. Set "
                    'label="last" or label="middle", which do not depend on the length'
                )
            yield tuple(view.inputs_of(array[picked]) for array in self.windows.inputs)

    def _has_labels_of(self, view: Windows, picked: NDArray[np.int64], known: NDArray[Any]) -> bool:
        rows = self.windows.labels[0]
        if view.length > rows.shape[1]:
            return False
        return np.array_equal(view.labels_of(rows[picked]).astype(known.dtype), known)


def held_out_rows(
    shard: Tensors, windows: Windows | None, folds: Folds, most_rows: int
) -> HeldOutRows | HeldOutWindows:
    """Return rows of a shard, or its ``windows``, with their part of two; at most ``most_rows``.

    Rows were shuffled, so the first ones are a random sample; windows are evenly spaced where there are more.
    """
    if windows is None:
        count = min(shard.rows, most_rows)
        part = folds.assign([array[:count] for array in shard.inputs])
        weights = None if shard.weights is None else shard.weights[:count]
        return HeldOutRows(shard, part, shard.labels[0][:count], weights)
    assert shard.offsets is not None  # checked when the configurations were probed
    seen = windows.apply(shard)
    part = window_parts(seen, shard.offsets, windows.length, folds)
    picked = np.flatnonzero(part >= 0)
    if len(picked) > most_rows:
        picked = picked[np.linspace(0, len(picked) - 1, most_rows).astype(np.int64)]
    by_row = replace(windows, label=_labels_of_rows).apply(shard)
    return HeldOutWindows(by_row, picked, part[picked], seen.labels[0][picked])


def _labels_of_rows(labels: NDArray[Any]) -> NDArray[Any]:
    return labels
