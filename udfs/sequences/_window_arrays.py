"""Arrays of windows, which gather rows of a shard's array when they are indexed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

__all__ = ["LabelArray", "WindowArray", "WindowStarts", "downsampled"]


def downsampled(rows: NDArray[Any], size: int, method: str) -> NDArray[Any]:
    """Downsample windows of shape (windows, length, ...) by the mean of ``size`` rows, or by the first of them."""
    if method == "every" or size == 1:
        return rows[:, ::size]
    parts = rows.reshape(len(rows), -1, size, *rows.shape[2:])
    means: NDArray[Any] = parts.mean(axis=2, dtype=np.float64).astype(rows.dtype)
    return means


@dataclass(frozen=True, slots=True)
class WindowStarts:
    """First rows of the windows of a shard, in the order of its series.

    They are computed from the offsets of the series, and not stored: one number a window would take as much memory as
    the rows of a short series.

    Examples
    --------
    >>> starts = WindowStarts(np.array([0, 5, 6, 9]), length=2, stride=3)
    >>> starts.count, starts[:].tolist(), starts[np.array([2, 0])].tolist()
    (3, [0, 3, 6], [6, 0])
    """

    offsets: NDArray[np.int64]
    length: int
    stride: int
    _before: NDArray[np.int64] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        counts = np.maximum(0, (np.diff(self.offsets) - self.length) // self.stride + 1)
        object.__setattr__(self, "_before", np.concatenate([[0], np.cumsum(counts)]).astype(np.int64))

    @property
    def count(self) -> int:
        """Number of windows."""
        return int(self._before[-1])

    @property
    def nbytes(self) -> int:
        """Bytes that it takes."""
        return int(self._before.nbytes)

    def __getitem__(self, picked: slice | NDArray[np.int64]) -> NDArray[np.int64]:
        numbers = np.arange(*picked.indices(self.count)) if isinstance(picked, slice) else picked
        if len(numbers) and not 0 <= numbers.min() <= numbers.max() < self.count:
            raise IndexError(f"windows must be numbered from 0 to {self.count - 1}, got {numbers.max()}")
        series = np.searchsorted(self._before, numbers, side="right") - 1
        starts: NDArray[np.int64] = self.offsets[series] + (numbers - self._before[series]) * self.stride
        return starts


@dataclass(frozen=True, slots=True)
class _Gathered:
    """Base of the arrays: rows of an array, by window."""

    source: NDArray[Any]
    starts: WindowStarts

    def __len__(self) -> int:
        return self.starts.count

    @property
    def nbytes(self) -> int:
        """Bytes beside those of the shard."""
        return self.starts.nbytes

    def __getitem__(self, picked: Any) -> NDArray[Any]:
        raise NotImplementedError

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        # Code that needs all windows at once gets a copy.
        return np.asarray(self[:], dtype)

    def _rows(self, picked: Any, length: int, every: int = 1) -> NDArray[Any]:
        places = self.starts[picked][:, None] + np.arange(0, length, every)
        rows: NDArray[Any] = self.source[places]
        return rows


@dataclass(frozen=True, slots=True)
class WindowArray(_Gathered):
    """Input of the network, of shape ``(windows, length // downsample, ...)``.

    Indexing it with a slice, or an array of window numbers, copies these windows to an array of numpy.
    """

    length: int
    downsample: int
    method: str

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of all windows."""
        return (len(self), self.length // self.downsample, *self.source.shape[1:])

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the numbers."""
        return self.source.dtype

    def __getitem__(self, picked: Any) -> NDArray[Any]:
        if self.method == "every" or self.downsample == 1:
            return self._rows(picked, self.length, self.downsample)
        return downsampled(self._rows(picked, self.length), self.downsample, self.method)


@dataclass(frozen=True, slots=True)
class LabelArray(_Gathered):
    """Label of each window, by a function of the labels of its rows."""

    length: int
    function: Callable[[NDArray[Any]], NDArray[Any]]

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of all labels."""
        return (len(self), *self[:1].shape[1:])

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the numbers."""
        return self[:1].dtype

    def __getitem__(self, picked: Any) -> NDArray[Any]:
        labels = np.asarray(self.function(self._rows(picked, self.length)))
        return labels.astype(np.int64 if labels.dtype.kind in "biu" else np.float32, copy=False)
