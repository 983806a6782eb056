"""Partial inference over Arrow batches (Vista, definitions 3.6 and 3.7)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
import pyarrow as pa
from pyspark import TaskContext

from udfs.arrow import VECTOR, NewColumns, TensorError, to_binary, to_lists
from udfs.inference._feeds import Feed, ImageFeed, Read, TensorFeed
from udfs.inference._finite_records import NOT_FINITE, finite_records, of_records
from udfs.inference._model import ModelSource, open_model
from udfs.inference._pooling import Pooling, pool
from udfs.node import keep_freed_memory, task_device, worker_status

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from udfs.handlers import LayerLayout, TracedModel

__all__ = [
    "COMBINATIONS",
    "REDUCTIONS",
    "Combination",
    "Combined",
    "Feature",
    "ImageFeed",
    "Inference",
    "Materialised",
    "Reduction",
    "TensorFeed",
]

Reduction = Literal["mean", "max"]
"""How the features of a record's images become one vector."""
REDUCTIONS: tuple[str, ...] = get_args(Reduction)

Combination = Literal["concat", "sum"]
"""How the features of several layers become one vector."""
COMBINATIONS: tuple[str, ...] = get_args(Combination)


@dataclass(frozen=True, slots=True)
class Feature:
    """A layer to deliver as a feature vector, in a column of ``array<float>``; ``layout`` tells what is pooled.

    ``LayerLayout()`` is that of a vector, of which nothing is pooled.
    """

    layer: str
    column: str
    pooling: Pooling
    layout: LayerLayout


@dataclass(frozen=True, slots=True)
class Combined:
    """Combine the features of all layers in one column: concatenated, or summed if their lengths are equal."""

    column: str
    how: Combination


@dataclass(frozen=True, slots=True)
class Materialised:
    """A layer to deliver as an unpooled tensor, in a binary column, for a later part to continue from."""

    layer: str
    column: str


@dataclass(frozen=True, slots=True)
class Inference:
    """Part of a network over the rows of a batch: feeds in, features and materialised tensors out.

    A :class:`udfs.arrow.BatchFunction`. It adds the features' columns, then those of the materialised tensors.
    """

    source: ModelSource
    feeds: tuple[Feed, ...]  # a feed may fill several of the graph's inputs, and several feeds may read one column
    features: tuple[Feature, ...]  # columns to add, in this order
    materialised: tuple[Materialised, ...]
    batch_size: int  # records per run of the network, or images where a record has several
    device: str  # device of the handler; "auto" and "cuda" take the GPU that Spark gave the task
    image_aggregation: Reduction = "mean"  # aggregates the features of a record's images into one vector
    combined: Combined | None = None  # put all features into one column, instead of one each

    @property
    def vectors(self) -> tuple[str, ...]:
        """Columns of feature vectors that it adds."""
        return (self.combined.column,) if self.combined else tuple(feature.column for feature in self.features)

    @property
    def reads(self) -> tuple[str, ...]:
        """Columns that its feeds read, each once."""
        return tuple(dict.fromkeys(column for feed in self.feeds for column in feed.columns))

    @property
    def adds(self) -> tuple[pa.Field, ...]:
        """Feature vectors, then materialised tensors."""
        vectors = (pa.field(column, VECTOR) for column in self.vectors)
        return (*vectors, *(pa.field(tensor.column, pa.binary()) for tensor in self.materialised))

    def open(self, threads: int) -> Callable[[pa.RecordBatch], NewColumns]:
        """Open the model in this process, or take it from the process's cache."""
        if TaskContext.get():
            keep_freed_memory()  # the process is a Spark worker's, which does nothing else
        return partial(self._run, open_model(self.source, task_device(self.device), threads))

    def _run(self, model: TracedModel, batch: pa.RecordBatch) -> NewColumns:
        status = worker_status()
        with status.phase("decode"):
            reads = [feed.take(batch) for feed in self.feeds]
        reasons = [next(filter(None, row), None) for row in zip(*(read.reasons for read in reads), strict=True)]
        valid = np.array([reason is None for reason in reasons], np.bool_)
        empty: NDArray[Any] = np.empty((0, 0), np.float32)
        vectors, tensors, counts = [empty] * len(self.features), [empty] * len(self.materialised), None
        if valid.any():
            vectors, tensors, counts = self._infer(model, [read.of(valid) for read in reads])
        if self.combined:
            vectors = [np.concatenate(vectors, axis=1) if self.combined.how == "concat" else np.sum(vectors, axis=0)]
        finite = finite_records(int(valid.sum()), vectors, tensors, counts)
        if not finite.all():
            for row in np.flatnonzero(valid)[~finite]:
                reasons[row] = NOT_FINITE
            valid[np.flatnonzero(valid)[~finite]] = False
            vectors, tensors = [rows[finite] for rows in vectors], of_records(finite, tensors, counts)
            counts = None if counts is None else counts[finite]
        with status.phase("convert"):
            columns: list[pa.Array] = [to_lists(rows, valid) for rows in vectors]
            columns += [to_binary(rows, valid, counts) for rows in tensors]
        return NewColumns.explained(columns, reasons)

    def _infer(
        self, model: TracedModel, reads: Sequence[Read]
    ) -> tuple[list[NDArray[Any]], list[NDArray[Any]], NDArray[np.int64] | None]:
        """Return the feature vectors of the records, tensors of their items, and how many items each record has."""
        inputs, counts = _together(reads)
        layers = list(
            dict.fromkeys([feature.layer for feature in self.features] + [tensor.layer for tensor in self.materialised])
        )
        items = len(next(iter(inputs.values())))
        vectors: list[list[NDArray[np.float32]]] = [[] for _ in self.features]
        tensors: list[list[NDArray[np.generic]]] = [[] for _ in self.materialised]
        for start in range(0, items, self.batch_size):
            part = {layer: array[start : start + self.batch_size] for layer, array in inputs.items()}
            values = model.run(part, layers)
            for pooled, feature in zip(vectors, self.features, strict=True):
                pooled.append(pool(values[feature.layer], feature.pooling, feature.layout))
            for kept, tensor in zip(tensors, self.materialised, strict=True):
                kept.append(values[tensor.layer])
        rows = [_joined(parts) for parts in vectors]
        if counts is not None:
            rows = [_aggregated(items_of, counts, self.image_aggregation) for items_of in rows]
        return rows, [_joined(parts) for parts in tensors], counts


def _together(reads: Sequence[Read]) -> tuple[dict[str, NDArray[np.generic]], NDArray[np.int64] | None]:
    """Align the arrays of all layers: an item of a record is repeated for each item of its longest array.

    Raises
    ------
    udfs.arrow.TensorError
        Two feeds have several items of one record, and not as many.
    """
    counts = next((read.counts for read in reads if read.counts is not None), None)
    inputs: dict[str, NDArray[np.generic]] = {}
    for read in reads:
        if read.counts is not None and not np.array_equal(read.counts, counts):  # type: ignore[arg-type]
            raise TensorError("a record has another number of good images in one column than in another")
        for layer, array in read.arrays.items():
            inputs[layer] = np.repeat(array, counts, axis=0) if read.counts is None and counts is not None else array
    return inputs, counts


def _joined(parts: list[NDArray[Any]]) -> NDArray[Any]:
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def _aggregated(rows: NDArray[np.float32], counts: NDArray[np.int64], how: Reduction) -> NDArray[np.float32]:
    starts = np.concatenate([[0], np.cumsum(counts)[:-1]])
    if how == "max":
        return np.maximum.reduceat(rows, starts, axis=0)
    means: NDArray[np.float32] = np.add.reduceat(rows, starts, axis=0)
    means /= counts[:, None]
    return means
