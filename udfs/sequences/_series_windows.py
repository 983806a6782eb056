"""Windows of the series of a DataFrame, in Arrow batches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from optimizer.errors import InvalidArgumentError
from udfs.shards import Tensors, group_array

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

    from udfs.sequences._windows import Windows
    from udfs.shards import TensorGroup

__all__ = ["SeriesWindows"]


@dataclass(frozen=True, slots=True)
class SeriesWindows:
    """Windows of rows that come sorted by series and time: a function for ``mapInArrow``.

    The rows have ``run``, a number that changes from one series to the next, ``time``, ``at`` (the user's time), the
    columns of ``inputs``, ``labels`` (which may be null) and ``keys``. A window has the keys, the first and the last
    time, a tensor as nested lists for each input, and its labels: in the type of the column, or doubles if they are
    means. One series is in memory at a time.
    """

    view: Windows
    inputs: tuple[TensorGroup, ...]
    labels: tuple[str, ...]
    keys: tuple[str, ...]
    batch_size: int = 256

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield windows in batches."""
        waiting: list[pa.RecordBatch] = []
        last = None
        for batch in batches:
            runs = batch.column("run").to_numpy()
            starts = np.flatnonzero(np.diff(runs, prepend=runs[:1] - 1))
            for start, end in zip(starts.tolist(), [*starts[1:].tolist(), len(runs)], strict=True):
                if waiting and runs[start] != last:
                    yield from self._windows(pa.Table.from_batches(waiting))
                    waiting = []
                last = runs[start]
                waiting.append(batch.slice(start, end - start))
        if waiting:
            yield from self._windows(pa.Table.from_batches(waiting))

    def _windows(self, table: pa.Table) -> Iterator[pa.RecordBatch]:
        if (np.diff(table.column("time").to_numpy()) <= 0).any():
            raise InvalidArgumentError("order_by must have each time once in a series, got a time twice.")
        inputs = tuple(group_array(table, group) for group in self.inputs)
        labels = [_Labels.of_column(table.column(name), self.view.label == "mean") for name in self.labels]
        windows = self.view.apply(Tensors(inputs, (), table.num_rows, offsets=np.array([0, table.num_rows])))
        names = [*self.keys, "window_start", "window_end", *(group.name for group in self.inputs), *self.labels]
        for start in range(0, windows.rows, self.batch_size):
            picked = slice(start, min(start + self.batch_size, windows.rows))
            begins: NDArray[np.int64] = windows.inputs[0].starts[picked]  # type: ignore[attr-defined]
            sources = [*((name, 0) for name in self.keys), ("at", 0), ("at", self.view.length - 1)]
            columns = [table.column(name).take(pa.array(begins + later)).combine_chunks() for name, later in sources]
            columns += [_nested(array[picked]) for array in windows.inputs]
            rows = begins[:, None] + np.arange(self.view.length)
            columns += [each.decoded(self.view.labels_of(each.numbers[rows])) for each in labels]
            yield pa.RecordBatch.from_arrays(columns, names=names)


@dataclass(frozen=True, slots=True)
class _Labels:
    """Labels of rows as numbers: places among the different values in their order, NaN for null, or values to average.

    A label of rows is one of these values, whatever its type; single precision would round a large whole number.
    """

    numbers: NDArray[np.float64]
    values: pa.Array | None

    @classmethod
    def of_column(cls, column: pa.ChunkedArray, is_averaged: bool) -> _Labels:
        if is_averaged:
            return cls(column.to_numpy().astype(np.float64), None)
        values = column.unique().drop_null()
        values = values.take(pc.array_sort_indices(values))
        return cls(pc.index_in(column, value_set=values).to_numpy().astype(np.float64), values)

    def decoded(self, labels: NDArray[Any]) -> pa.Array:
        """Return labels of windows in the type of the column."""
        numbers = pa.array(labels.astype(np.float64), from_pandas=True)
        return numbers if self.values is None else self.values.take(numbers.cast(pa.int64()))


def _nested(array: NDArray[Any]) -> pa.Array:
    """Convert an array to nested lists of its rows."""
    values: pa.Array = pa.array(np.ascontiguousarray(array).reshape(-1))
    for size in reversed(array.shape[1:]):
        offsets = pa.array(np.arange(0, len(values) + 1, size), pa.int32())
        values = pa.ListArray.from_arrays(offsets, values)
    return values
