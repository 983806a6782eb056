"""Probabilities of classes, each row by a network that did not train on it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from udfs.arrow import NewColumns
from udfs.inference import NetworkInputs

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from udfs.inference import PortableNetwork
    from udfs.shards import TensorGroup
    from udfs.training import Folds, Task

    Run = Callable[[Sequence[NDArray[Any]]], tuple[NDArray[np.float32], ...]]

__all__ = ["ClassProbabilities"]


@dataclass(frozen=True, slots=True)
class ClassProbabilities:
    """Probabilities of the classes of each row. A :class:`udfs.arrow.BatchFunction`.

    With ``folds`` there is a network for each fold, which did not train on its rows; without, there is one network. A
    row is bad where a value is null, an image cannot be read or a tensor has another size.
    """

    networks: tuple[PortableNetwork, ...]
    inputs: tuple[TensorGroup, ...]
    images: tuple[str, ...]  # columns that arrive as images
    task: Task  # classes of a row
    output: str  # column to add, list<double>: a probability for each class
    batch_size: int
    folds: Folds | None = None

    @property
    def reads(self) -> tuple[str, ...]:
        """Names of the columns that the networks read, each once."""
        return tuple(column.name for column in self._inputs.columns)

    @property
    def adds(self) -> tuple[pa.Field, ...]:
        """The column of probabilities."""
        return (pa.field(self.output, pa.list_(pa.float64())),)

    def open(self, threads: int) -> Callable[[pa.RecordBatch], NewColumns]:
        """Open the networks, once a process."""
        del threads
        return partial(self._predict, [network.open() for network in self.networks])

    @property
    def _inputs(self) -> NetworkInputs:
        return NetworkInputs(self.inputs, self.images)

    def _predict(self, networks: Sequence[Run], batch: pa.RecordBatch) -> NewColumns:
        arrays, reasons = self._inputs.read(batch)
        valid = np.array([reason is None for reason in reasons], np.bool_)
        values: list[list[float] | None] = [None] * batch.num_rows
        if valid.any():
            for place, row in zip(np.flatnonzero(valid).tolist(), self._probabilities(networks, arrays), strict=True):
                # A network that diverged says nothing of the row.
                values[place] = row.tolist() if np.isfinite(row).all() else None
        return NewColumns.explained([pa.array(values, pa.list_(pa.float64()))], reasons)

    def _probabilities(self, networks: Sequence[Run], arrays: Sequence[NDArray[Any]]) -> NDArray[np.float64]:
        if self.folds is None:
            return self._of(networks[0], arrays)
        numbers = self.folds.assign(arrays)
        result: NDArray[np.float64] | None = None
        for number in np.unique(numbers).tolist():
            rows = numbers == number
            part = self._of(networks[number], [np.ascontiguousarray(array[rows]) for array in arrays])
            result = np.empty((len(numbers), part.shape[1])) if result is None else result
            result[rows] = part
        assert result is not None  # the caller has at least one row
        return result

    def _of(self, network: Run, arrays: Sequence[NDArray[Any]]) -> NDArray[np.float64]:
        (first, *_) = network(arrays)
        return self.task.probabilities(first.reshape(len(first), -1))
