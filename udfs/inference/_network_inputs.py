"""Inputs of a network, read from the columns that it was trained on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from udfs.shards import decoded

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from udfs.shards import TensorColumn, TensorGroup

__all__ = ["NetworkInputs"]


@dataclass(frozen=True, slots=True)
class NetworkInputs:
    """The inputs of a network, and the columns that they are read from.

    A row is bad where a value is null, an image cannot be read, or a tensor has another size or a null in it.
    """

    inputs: tuple[TensorGroup, ...]
    images: tuple[str, ...]  # columns that arrive as images

    @property
    def columns(self) -> tuple[TensorColumn, ...]:
        """The columns that the network reads, each once."""
        return tuple(dict.fromkeys(column for group in self.inputs for column in group.columns))

    def read(self, batch: pa.RecordBatch) -> tuple[list[NDArray[Any]], list[str | None]]:
        """Read the columns of a batch, which has them by name.

        Returns
        -------
        list of array, each of shape (good rows, ...)
            One an input, as training has it.
        list of str or None
            For each row of the batch why it is bad.
        """
        reasons: list[str | None] = [None] * batch.num_rows
        for column in self.columns:
            self._note(reasons, batch.column(column.name), column)
        complete = np.array([reason is None for reason in reasons], np.bool_)
        arrays = {
            column.name: self._array(column, batch.column(column.name).filter(pa.array(complete)), reasons, complete)
            for column in self.columns
        }
        # Of the complete rows, those whose images could be read.
        readable = np.array([reason is None for reason in reasons], np.bool_)[complete]
        return [self._group(group, arrays, readable) for group in self.inputs], reasons

    def _note(self, reasons: list[str | None], values: pa.Array, column: TensorColumn) -> None:
        """Record errors of rows without a value, with a tensor of another size, or with a null in it."""
        present = values.is_valid().to_numpy(zero_copy_only=False)
        fits, whole = present, present
        if column.shape and column.name not in self.images:
            lengths = pc.fill_null(pc.list_value_length(values), -1)
            fits = lengths.to_numpy(zero_copy_only=False) == column.size
            whole = _without_null(values)
        for row in np.flatnonzero(~(fits & whole)).tolist():
            why = (
                "null"
                if not present[row]
                else "tensor of another size"
                if not fits[row]
                else "tensor with a null in it"
            )
            reasons[row] = reasons[row] or f"{why}: column {column.name!r}"

    def _array(
        self, column: TensorColumn, values: pa.Array, reasons: list[str | None], complete: NDArray[np.bool_]
    ) -> NDArray[Any]:
        rows = len(values)
        if column.name in self.images:
            group_reasons: list[str | None] = [None] * rows
            pixels = decoded(values, column, group_reasons)
            for place, reason in zip(np.flatnonzero(complete).tolist(), group_reasons, strict=True):
                reasons[place] = reasons[place] or reason
            array: NDArray[Any] = pixels.flatten().to_numpy().reshape(rows, *column.shape)
        elif column.shape:
            array = values.flatten().to_numpy(zero_copy_only=False).reshape(rows, *column.shape)
        else:
            array = values.to_numpy(zero_copy_only=False)
        return array.astype(column.dtype, copy=False)

    @staticmethod
    def _group(group: TensorGroup, arrays: dict[str, NDArray[Any]], good: NDArray[np.bool_]) -> NDArray[Any]:
        columns = [arrays[column.name][good] for column in group.columns]
        if group.side_by_side:
            joined = [
                array.reshape(len(array), column.size).astype(group.dtype)
                for column, array in zip(group.columns, columns, strict=True)
            ]
            return np.ascontiguousarray(np.concatenate(joined, axis=1))
        # As in training: eight-bit pixels are shares of one.
        return columns[0].astype(np.float32) / 255.0 if columns[0].dtype == np.uint8 else columns[0]


def _without_null(values: pa.Array) -> NDArray[np.bool_]:
    """Return which lists have no null among their elements."""
    whole = np.ones(len(values), np.bool_)
    elements = values.flatten()
    if elements.null_count:
        whole[pc.list_parent_indices(values).filter(elements.is_null()).to_numpy()] = False
    return whole
