"""Lazy concatenation of the rows of several arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

__all__ = ["RowArray", "Stacked"]


class RowArray(Protocol):
    """Array whose rows are indexed by an array of integers or by a slice."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape with the rows first."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of a number."""

    def __getitem__(self, picked: Any) -> NDArray[Any]: ...


class Stacked:
    """Lazy concatenation of arrays without some of their rows.

    ``parts`` are arrays, each with the indices of its rows in order, or ``None`` for all rows; the argument ``shape``
    is that of one row, the attribute has the rows first.

    Examples
    --------
    >>> both = Stacked([(np.arange(3), None), (np.arange(10, 14), np.array([0, 3]))], (), "int64")
    >>> both.shape, both[[4, 0]].tolist(), both[1:4].tolist()
    ((5,), [13, 0], [1, 2, 10])
    """

    def __init__(
        self, parts: Sequence[tuple[RowArray, NDArray[np.int64] | None]], shape: tuple[int, ...], dtype: Any
    ) -> None:
        self._parts = [(array, kept) for array, kept in parts if (array.shape[0] if kept is None else len(kept))]
        counts = [array.shape[0] if kept is None else len(kept) for array, kept in self._parts]
        self._ends = np.cumsum(counts, dtype=np.int64)
        self.shape = (int(sum(counts)), *shape)
        self.dtype = np.dtype(dtype)

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, picked: Any) -> NDArray[Any]:
        rows = np.arange(len(self))[picked] if isinstance(picked, slice) else np.asarray(picked)
        if rows.dtype == np.bool_:
            rows = np.flatnonzero(rows)
        rows = np.where(rows < 0, rows + len(self), rows).astype(np.int64)
        if rows.size and not (rows.min() >= 0 and rows.max() < len(self)):
            raise IndexError(f"row must be less than {len(self)}, got {rows.max()}")
        if rows.ndim != 1:
            raise IndexError(f"rows must be a slice or a list of integers, got {picked!r}")
        places = np.searchsorted(self._ends, rows, "right")
        if rows.size and places[0] == places.max() == places.min():
            return self._part_rows(int(places[0]), rows)
        out = np.empty((len(rows), *self.shape[1:]), self.dtype)
        for place in np.unique(places).tolist():
            chosen = places == place
            out[chosen] = self._part_rows(place, rows[chosen])
        return out

    def _part_rows(self, place: int, rows: NDArray[np.int64]) -> NDArray[Any]:
        array, kept = self._parts[place]
        local = rows - (self._ends[place - 1] if place else 0)
        return array[local if kept is None else kept[local]]

    def __array__(self, dtype: Any = None, copy: Any = None) -> NDArray[Any]:
        """Read all rows."""
        del copy
        whole = self[:]
        return whole if dtype is None else whole.astype(dtype)
