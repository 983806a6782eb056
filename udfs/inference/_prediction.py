"""Predictions of a trained network in Arrow batches: the function that ``mapInArrow`` runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from udfs.arrow import rebatch, to_lists
from udfs.shards import decoded

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

    from udfs.inference._portable import PortableNetwork
    from udfs.shards import TensorColumn, TensorGroup

__all__ = ["Prediction"]


@dataclass(frozen=True, slots=True)
class Prediction:
    """Runs a network over the columns that it was trained on.

    Parameters
    ----------
    network : PortableNetwork
    inputs : tuple of TensorGroup
    images : tuple of str
        Columns that arrive as images.
    keep : int
        The first so many columns pass through; the network's follow, each once, in the order of the inputs.
    batch_size : int
    """

    network: PortableNetwork
    inputs: tuple[TensorGroup, ...]
    images: tuple[str, ...]
    keep: int
    batch_size: int

    @property
    def columns(self) -> tuple[TensorColumn, ...]:
        """What the network reads, each column once."""
        return tuple(dict.fromkeys(column for group in self.inputs for column in group.columns))

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Add outputs, ``list<float>``; null where a value is null, an image bad or a tensor of another size."""
        run = self.network.open()
        for batch in rebatch(batches, self.batch_size):
            arrays, valid = self._read(batch)
            kept = {name: batch.column(place) for place, name in enumerate(batch.schema.names[: self.keep])}
            if valid.any():
                (first, *_) = run(arrays)
                outputs = to_lists(np.ascontiguousarray(first.reshape(len(first), -1), np.float32), valid)
            else:
                outputs = pa.nulls(batch.num_rows, pa.list_(pa.float32()))
            yield pa.RecordBatch.from_pydict({**kept, "outputs": outputs})

    def _read(self, batch: pa.RecordBatch) -> tuple[list[NDArray[Any]], NDArray[np.bool_]]:
        """One array an input, of the good rows; and which those are."""
        found = dict(zip(self.columns, batch.columns[self.keep :], strict=True))
        reasons: list[str | None] = [None] * batch.num_rows
        whole = np.ones(batch.num_rows, np.bool_)
        for column, values in found.items():
            whole &= values.is_valid().to_numpy(zero_copy_only=False)
            if column.shape and column.name not in self.images:
                lengths = pc.fill_null(pc.list_value_length(values), -1)
                whole &= lengths.to_numpy(zero_copy_only=False) == column.size
        arrays = {
            column.name: self._array(column, values.filter(pa.array(whole)), reasons, whole)
            for column, values in found.items()
        }
        # Of the rows that were whole, those whose images could be read.
        good = np.array([reason is None for reason in reasons], np.bool_)
        groups = [self._group(group, arrays, good[whole]) for group in self.inputs]
        return groups, whole & good

    def _array(
        self, column: TensorColumn, values: pa.Array, reasons: list[str | None], whole: NDArray[np.bool_]
    ) -> NDArray[Any]:
        rows = len(values)
        if column.name in self.images:
            own: list[str | None] = [None] * rows
            pixels = decoded(values, column, own)
            for place, reason in zip(np.flatnonzero(whole).tolist(), own, strict=True):
                reasons[place] = reasons[place] or reason
            array: NDArray[Any] = pixels.flatten().to_numpy().reshape(rows, *column.shape)
        elif column.shape:
            array = values.flatten().to_numpy(zero_copy_only=False).reshape(rows, *column.shape)
        else:
            array = values.to_numpy(zero_copy_only=False)
        return array.astype(column.dtype, copy=False)

    @staticmethod
    def _group(group: TensorGroup, arrays: dict[str, NDArray[Any]], good: NDArray[np.bool_]) -> NDArray[Any]:
        own = [arrays[column.name][good] for column in group.columns]
        if group.side_by_side:
            joined = [
                array.reshape(len(array), column.size).astype(group.dtype)
                for column, array in zip(group.columns, own, strict=True)
            ]
            return np.ascontiguousarray(np.concatenate(joined, axis=1))
        # As in training: eight-bit pixels are shares of one.
        return own[0].astype(np.float32) / 255.0 if own[0].dtype == np.uint8 else own[0]
