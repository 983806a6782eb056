"""Tensors of a cut as Arrow record batches of one row."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from optimizer.errors import InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from optimizer.graph import LayerGraph

__all__ = ["AUTHORIZATION", "pack_tensors", "unpack_tensors"]

AUTHORIZATION = "authorization"
"""Header of the access token."""


def pack_tensors(tensors: Mapping[str, NDArray[np.generic]]) -> pa.RecordBatch:
    """Pack tensors of one record, each with a batch axis, into a batch with a column for each."""
    arrays = [pa.FixedShapeTensorArray.from_numpy_ndarray(np.ascontiguousarray(each)) for each in tensors.values()]
    return pa.RecordBatch.from_arrays(arrays, list(tensors))


def unpack_tensors(batch: pa.RecordBatch, graph: LayerGraph) -> dict[str, NDArray[np.generic]]:
    """Unpack tensors, and check them against the layers of a network.

    Raises
    ------
    InvalidArgumentError
        A column is no layer, or a tensor has another shape or type than its layer.
    """
    tensors: dict[str, NDArray[np.generic]] = {}
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        array = column.to_numpy_ndarray() if isinstance(column, pa.FixedShapeTensorArray) else column.to_numpy()
        wanted = f"{graph[name].dtype} {(1, *graph[name].output_shape)}" if name in graph else "the output of a layer"
        got = f"{array.dtype} {array.shape}"
        if got != wanted:
            raise InvalidArgumentError(
                f"tensor {name!r} must be {wanted}, got {got}. Install the same catalog on device and cloud."
            )
        # Frameworks refuse memory that they may not write to.
        tensors[name] = np.array(array)
    return tensors
