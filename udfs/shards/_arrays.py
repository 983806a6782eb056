"""Copy columns of Arrow's, which hold numbers or lists of numbers, to arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from udfs.shards._prepared_data import ShardError

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

    from udfs.shards._groups import TensorColumn, TensorGroup

__all__ = ["as_array", "copy_column", "group_array"]


def copy_column(values: pa.ChunkedArray, column: TensorColumn, out: NDArray[Any]) -> None:
    """Copy a column's rows to an array of as many rows, whose other axes have the column's numbers in C order.

    Raise ShardError for a null, or lists of another length.
    """
    done = 0
    for chunk in values.chunks:
        # No Python object per number: Arrow's buffer is viewed, and copied once.
        flat = chunk.flatten() if column.shape else chunk
        expected = len(chunk) * column.size
        if chunk.null_count or flat.null_count or len(flat) != expected:
            raise ShardError(
                f"column {column.name!r}: {len(flat):,} numbers for {len(chunk):,} rows of shape {column.shape}, "
                f"{chunk.null_count + flat.null_count} null: not what was prepared"
            )
        rows = out[done : done + len(chunk)]
        rows[...] = flat.to_numpy(zero_copy_only=True).reshape(rows.shape)
        done += len(chunk)


def as_array(values: pa.ChunkedArray, column: TensorColumn) -> NDArray[Any]:
    """Copy a column to an array of its own, of shape ``(rows, *column.shape)``; errors as :func:`copy_column`."""
    out = np.empty((len(values), *column.shape), column.dtype)
    copy_column(values, column, out)
    return out


def group_array(table: pa.Table, group: TensorGroup) -> NDArray[Any]:
    """Copy the columns of a group to an array of shape ``(rows, *group.shape)``; errors as :func:`copy_column`."""
    out = np.empty((table.num_rows, *group.shape), group.dtype)
    if not group.side_by_side:
        copy_column(table.column(group.columns[0].name), group.columns[0], out)
        return out
    start = 0
    for column in group.columns:
        copy_column(table.column(column.name), column, out[:, start : start + column.size])
        start += column.size
    return out
