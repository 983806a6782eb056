"""Predictions of a trained network in Arrow batches."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from udfs.arrow import VECTOR, NewColumns, to_lists
from udfs.inference._network_inputs import NetworkInputs

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from udfs.inference._portable import PortableNetwork
    from udfs.shards import TensorGroup
    from udfs.training import Task

__all__ = ["Prediction"]


@dataclass(frozen=True, slots=True)
class Prediction:
    """Outputs of a network for the columns that it was trained on. A :class:`udfs.arrow.BatchFunction`.

    A row is bad where a value is null, an image cannot be read or a tensor has another size.
    """

    network: PortableNetwork
    inputs: tuple[TensorGroup, ...]
    images: tuple[str, ...]  # columns that arrive as images
    output: str  # column to add, list<float>: the network's first output
    batch_size: int
    # Meaning of the outputs, to add the probabilities of classes instead.
    task: Task | None = field(default=None, kw_only=True)

    @property
    def reads(self) -> tuple[str, ...]:
        """Names of the columns that the network reads, each once."""
        return tuple(column.name for column in self._inputs.columns)

    @property
    def adds(self) -> tuple[pa.Field, ...]:
        """The column of outputs."""
        return (pa.field(self.output, VECTOR),)

    def open(self, threads: int) -> Callable[[pa.RecordBatch], NewColumns]:
        """Open the network, once a process."""
        del threads
        return partial(self._predict, self.network.open())

    @property
    def _inputs(self) -> NetworkInputs:
        return NetworkInputs(self.inputs, self.images)

    def _predict(
        self, run: Callable[[Sequence[NDArray[Any]]], tuple[NDArray[np.float32], ...]], batch: pa.RecordBatch
    ) -> NewColumns:
        arrays, reasons = self._inputs.read(batch)
        valid = np.array([reason is None for reason in reasons], np.bool_)
        if not valid.any():
            return NewColumns.explained([pa.nulls(batch.num_rows, VECTOR)], reasons)
        (first, *_) = run(arrays)
        outputs = np.ascontiguousarray(first.reshape(len(first), -1), np.float32)
        if self.task is not None:
            outputs = self.task.probabilities(outputs).astype(np.float32)
        return NewColumns.explained([to_lists(outputs, valid)], reasons)
