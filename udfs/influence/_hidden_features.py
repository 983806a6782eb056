"""Features of rows: what the last layer of a network reads."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from udfs.arrow import VECTOR, NewColumns, to_lists
from udfs.inference import NetworkInputs

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from udfs.inference import PortableNetwork
    from udfs.shards import TensorGroup

    Run = Callable[[Sequence[NDArray[Any]]], tuple[NDArray[np.float32], ...]]

__all__ = ["HiddenFeatures", "projected"]


@dataclass(frozen=True, slots=True)
class HiddenFeatures:
    """Features of each row: the input of the last layer with parameters. A :class:`udfs.arrow.BatchFunction`.

    A row is bad where a value is null, an image cannot be read or a tensor has another size.
    """

    network: PortableNetwork
    inputs: tuple[TensorGroup, ...]
    images: tuple[str, ...]  # columns that arrive as images
    output: str  # column to add, list<float>
    batch_size: int
    width: int  # most numbers of a row, see :func:`projected`

    @property
    def reads(self) -> tuple[str, ...]:
        """Names of the columns that the network reads, each once."""
        return tuple(column.name for column in self._inputs.columns)

    @property
    def adds(self) -> tuple[pa.Field, ...]:
        """The column of features."""
        return (pa.field(self.output, VECTOR),)

    def open(self, threads: int) -> Callable[[pa.RecordBatch], NewColumns]:
        """Open the network, once a process."""
        del threads
        return partial(self._compute, self.network.open_features())

    @property
    def _inputs(self) -> NetworkInputs:
        return NetworkInputs(self.inputs, self.images)

    def _compute(self, run: Run, batch: pa.RecordBatch) -> NewColumns:
        arrays, reasons = self._inputs.read(batch)
        valid = np.array([reason is None for reason in reasons], np.bool_)
        if not valid.any():
            return NewColumns.explained([pa.nulls(batch.num_rows, VECTOR)], reasons)
        return NewColumns.explained([to_lists(projected(run(arrays)[0], self.width), valid)], reasons)


def projected(features: NDArray[np.float32], width: int) -> NDArray[np.float32]:
    """Project features of more than ``width`` numbers onto random directions, which keeps distances approximately.

    References
    ----------
    Johnson, Lindenstrauss: Extensions of Lipschitz mappings into a Hilbert space, 1984.

    Examples
    --------
    >>> projected(np.ones((2, 5), np.float32), 8).shape, projected(np.ones((2, 500), np.float32), 8).shape
    ((2, 5), (2, 8))
    """
    if features.shape[1] <= width:
        return np.ascontiguousarray(features, np.float32)
    directions = np.random.default_rng(0).standard_normal((features.shape[1], width), np.float32)
    return np.asarray(features @ directions / np.sqrt(width), np.float32)
