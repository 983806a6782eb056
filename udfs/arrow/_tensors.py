"""Fixed-shape tensors in Arrow columns: raw bytes, one value a record, read and written without copying."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from optimizer.errors import CerebroError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from udfs.tensors import TensorSpec

__all__ = ["VECTOR", "TensorError", "from_binary", "nbytes", "ragged_from_binary", "to_binary", "to_lists"]

VECTOR = pa.list_(pa.float32())
"""Type of a column of feature vectors or outputs, whose numbers are never null; see :func:`to_lists`."""

# A binary column's offsets are 32-bit: one Arrow array holds less than 2 GiB.
_LARGEST = 2**31 - 1


class TensorError(CerebroError, ValueError):
    """A column's bytes are not the tensor that the plan says they are."""


def nbytes(spec: TensorSpec) -> int:
    """Return the size of one record in bytes."""
    return math.prod(spec.shape) * np.dtype(spec.dtype).itemsize


def to_binary(
    tensors: NDArray[np.generic], valid: NDArray[np.bool_], counts: NDArray[np.int64] | None = None
) -> pa.BinaryArray:
    r"""Write records as binary values in C order, null where ``valid`` is false.

    Parameters
    ----------
    tensors : array of shape (valid.sum(), *shape), or (counts.sum(), *shape)
        Only the valid ones.
    valid : array of bool, shape (n,)
        Whether each row has a tensor.
    counts : array of int, shape (valid.sum(),), optional
        Tensors that one value holds, one after the other; one each without it.

    Raises
    ------
    TensorError
        They exceed the 2 GiB of one Arrow array; a smaller batch is the remedy.
    ValueError
        There are more or fewer than valid rows.

    Examples
    --------
    >>> to_binary(np.zeros((1, 3), np.float32), np.array([True, False])).to_pylist()
    [b'\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00', None]
    """
    if counts is not None and counts.sum() != len(tensors):
        raise ValueError(f"{len(tensors)} tensors for {counts.sum()} of all records")
    _check_rows(len(tensors) if counts is None else len(counts), valid)
    tensors = np.ascontiguousarray(tensors)
    if tensors.nbytes > _LARGEST:
        raise TensorError(
            f"{len(tensors)} records of {tensors.nbytes // len(tensors):,} bytes exceed the 2 GiB of one Arrow array: "
            "lower batchSize"
        )
    size = tensors.nbytes // len(tensors) if len(tensors) else 0
    if counts is None:
        offsets = _offsets(valid, size)
    else:
        lengths = np.zeros(len(valid), np.int64)
        lengths[valid] = counts
        offsets = _offsets(lengths, size)
    buffers = [_validity(valid), pa.py_buffer(offsets), pa.py_buffer(tensors)]
    return pa.Array.from_buffers(pa.binary(), len(valid), buffers)


def from_binary(column: pa.Array, spec: TensorSpec) -> NDArray[np.generic]:
    """View binary values without nulls as one array of shape ``(n, *spec.shape)``, read-only in Arrow's memory.

    Raise TensorError if a value is null or has another length than ``spec`` says.
    """
    array, counts = ragged_from_binary(column, spec)
    if (counts != 1).any():
        lengths = sorted({int(count) * nbytes(spec) for count in counts if count != 1})[:3]
        raise _wrong_length(spec, lengths)
    return array


def ragged_from_binary(column: pa.Array, spec: TensorSpec) -> tuple[NDArray[np.generic], NDArray[np.int64]]:
    """View binary values of one or more tensors each as one array of all tensors, with the number in each value.

    Return a read-only view of Arrow's memory, of shape ``(counts.sum(), *spec.shape)``, and the counts. Raise
    TensorError if a value is null, empty, or of a length that is not a multiple of one tensor's.
    """
    if column.null_count:
        raise TensorError(f"{column.null_count} of {len(column)} tensors are null")
    if not len(column):
        return np.empty((0, *spec.shape), spec.dtype), np.empty(0, np.int64)
    wide = pa.types.is_large_binary(column.type)
    _, offsets, data = column.buffers()
    places = np.frombuffer(offsets, np.int64 if wide else np.int32)[column.offset : column.offset + len(column) + 1]
    lengths = np.diff(places)
    expected = nbytes(spec)
    bad = (lengths % expected != 0) | (lengths == 0)
    if bad.any():
        raise _wrong_length(spec, sorted({int(length) for length in lengths[bad]})[:3])
    flat = np.frombuffer(data, np.uint8, count=int(places[-1] - places[0]), offset=int(places[0]))
    flat.flags.writeable = False  # other columns, and other readers of this one, may share the buffer
    return flat.view(spec.dtype).reshape(-1, *spec.shape), (lengths // expected).astype(np.int64)


def _wrong_length(spec: TensorSpec, lengths: list[int]) -> TensorError:
    return TensorError(f"a tensor of shape {spec.shape} {spec.dtype} takes {nbytes(spec):,} bytes; found {lengths}")


def to_lists(rows: NDArray[np.float32], valid: NDArray[np.bool_]) -> pa.ListArray:
    """Return the feature vectors as ``list<float>``, null where ``valid`` is false.

    ``rows`` has only the valid ones, and is of shape ``(valid.sum(), length)``.
    """
    _check_rows(len(rows), valid)
    flat = np.ascontiguousarray(rows, np.float32).reshape(-1)
    # pa.array would import pandas, a fifth of a second in each worker.
    values = pa.Array.from_buffers(pa.float32(), flat.size, [None, pa.py_buffer(flat)])
    buffers = [_validity(valid), pa.py_buffer(_offsets(valid, rows.shape[1]))]
    return pa.Array.from_buffers(VECTOR, len(valid), buffers, children=[values])


def _check_rows(count: int, valid: NDArray[np.bool_]) -> None:
    # Arrow trusts the offsets: it would read past the end of the buffer.
    expected = int(valid.sum())
    if count != expected:
        raise ValueError(f"{count} tensors for {expected} valid row{'' if expected == 1 else 's'}")


def _offsets(counts: NDArray[np.bool_] | NDArray[np.int64], size: int) -> NDArray[np.int32]:
    return np.concatenate([[0], np.cumsum(counts, dtype=np.int64) * size]).astype(np.int32)


def _validity(valid: NDArray[np.bool_]) -> pa.Buffer | None:
    return None if valid.all() else pa.py_buffer(np.packbits(valid, bitorder="little"))
