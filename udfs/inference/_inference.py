"""Partial inference over Arrow batches (Vista, definitions 3.6 and 3.7): the function that ``mapInArrow`` runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
from pyspark import TaskContext

from udfs.arrow import TensorError, rebatch, to_binary, to_lists
from udfs.inference._feeds import Feed, ImageFeed, Read, TensorFeed
from udfs.inference._model import ModelSource, open_model
from udfs.inference._pooling import Pooling, pool
from udfs.node import keep_freed_memory, task_device

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import pyarrow as pa
    from numpy.typing import NDArray

    from udfs.images import Layout
    from udfs.inference._rows import RowPolicy

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
"""What the features of several images become the record's by."""
REDUCTIONS: tuple[str, ...] = get_args(Reduction)

Combination = Literal["concat", "sum"]
"""What the features of several layers become one vector by."""
COMBINATIONS: tuple[str, ...] = get_args(Combination)


@dataclass(frozen=True, slots=True)
class Feature:
    """A layer to deliver as a feature vector, in a column of ``array<float>``; ``layout`` is that of a feature map."""

    layer: str
    column: str
    pooling: Pooling
    layout: Layout = "NCHW"


@dataclass(frozen=True, slots=True)
class Combined:
    """One column for the features of all layers: one after the other, or their sum, which needs equal lengths."""

    column: str
    how: Combination


@dataclass(frozen=True, slots=True)
class Materialised:
    """A layer to deliver whole, in a binary column, for a later part to continue from."""

    layer: str
    column: str


@dataclass(frozen=True, slots=True)
class Inference:
    """One pass over a DataFrame: feeds in, features and materialised tensors out. Call it with ``mapInArrow``.

    Parameters
    ----------
    source : ModelSource
    feeds : tuple of Feed
        What to read. A feed may fill several of the graph's inputs, and several feeds may read one column.
    features, materialised : tuple
        What to add, in this order, after the columns of ``keep``.
    keep : tuple of str
        Columns that pass through, in the order of the output.
    policy : RowPolicy
        What becomes of a row that one of the feeds finds bad.
    batch_size : int
        Records a run of the network, or images where a record has several; batches are formed across Arrow batches.
    device : str
        As for the handler; ``"auto"`` and ``"cuda"`` take the GPU that Spark gave the task.
    several : {"mean", "max"}
        What makes one vector of the features of a record's images.
    combined : Combined, optional
        Put all features into one column, instead of one each.
    """

    source: ModelSource
    feeds: tuple[Feed, ...]
    features: tuple[Feature, ...]
    materialised: tuple[Materialised, ...]
    keep: tuple[str, ...]
    policy: RowPolicy
    batch_size: int
    device: str
    several: Reduction = "mean"
    combined: Combined | None = None

    @property
    def vectors(self) -> tuple[str, ...]:
        """Columns of feature vectors that it adds."""
        return (self.combined.column,) if self.combined else tuple(feature.column for feature in self.features)

    @property
    def reads(self) -> tuple[str, ...]:
        """Columns that its feeds read, each once."""
        return tuple(dict.fromkeys(column for feed in self.feeds for column in feed.columns))

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Run over the batches of one partition; an empty partition opens no model."""
        context = TaskContext.get()
        threads = context.cpus() if context else 1
        if context:
            keep_freed_memory()  # the process is a Spark worker's, which does nothing else
        done = 0
        for batch in rebatch(batches, self.batch_size):
            yield self._run(batch, done, threads)
            done += batch.num_rows

    def _run(self, batch: pa.RecordBatch, done: int, threads: int) -> pa.RecordBatch:
        read = [feed.take(batch) for feed in self.feeds]
        reasons = [next(filter(None, row), None) for row in zip(*(one.reasons for one in read), strict=True)]
        valid = self.policy.valid(reasons, done, ", ".join(self.reads))
        nothing: NDArray[Any] = np.empty((0, 0), np.float32)
        rows, whole, counts = [nothing] * len(self.features), [nothing] * len(self.materialised), None
        if valid.any():
            rows, whole, counts = self._infer([one.of(valid) for one in read], threads)
        if self.combined:
            rows = [np.concatenate(rows, axis=1) if self.combined.how == "concat" else np.sum(rows, axis=0)]
        columns = {name: batch.column(name) for name in self.keep}
        for column, found in zip(self.vectors, rows, strict=True):
            columns[column] = to_lists(found, valid)
        for tensor, found in zip(self.materialised, whole, strict=True):
            columns[tensor.column] = to_binary(found, valid, counts)
        return self.policy.emit(columns, reasons, valid)

    def _infer(
        self, read: Sequence[Read], threads: int
    ) -> tuple[list[NDArray[Any]], list[NDArray[Any]], NDArray[np.int64] | None]:
        """Feature vectors of the records, tensors of their items, and how many items each record has."""
        fed, counts = _together(read)
        want = list(
            dict.fromkeys([feature.layer for feature in self.features] + [kept.layer for kept in self.materialised])
        )
        model = open_model(self.source, task_device(self.device), threads)
        items = len(next(iter(fed.values())))
        rows: list[list[NDArray[np.float32]]] = [[] for _ in self.features]
        whole: list[list[NDArray[np.generic]]] = [[] for _ in self.materialised]
        for start in range(0, items, self.batch_size):
            part = {layer: array[start : start + self.batch_size] for layer, array in fed.items()}
            values = model.run(part, want)
            for pooled, feature in zip(rows, self.features, strict=True):
                pooled.append(pool(values[feature.layer], feature.pooling, feature.layout))
            for kept, tensor in zip(whole, self.materialised, strict=True):
                kept.append(values[tensor.layer])
        vectors = [_one(parts) for parts in rows]
        if counts is not None:
            vectors = [_reduced(every, counts, self.several) for every in vectors]
        return vectors, [_one(parts) for parts in whole], counts


def _together(read: Sequence[Read]) -> tuple[dict[str, NDArray[np.generic]], NDArray[np.int64] | None]:
    """All layers' arrays, with as many items each: one of a record that has several elsewhere goes with each of them.

    Raises
    ------
    udfs.arrow.TensorError
        Two feeds have several items of one record, and not as many.
    """
    counts = next((one.counts for one in read if one.counts is not None), None)
    fed: dict[str, NDArray[np.generic]] = {}
    for one in read:
        if one.counts is not None and not np.array_equal(one.counts, counts):  # type: ignore[arg-type]
            raise TensorError("a record has another number of good images in one column than in another")
        for layer, array in one.arrays.items():
            fed[layer] = np.repeat(array, counts, axis=0) if one.counts is None and counts is not None else array
    return fed, counts


def _one(parts: list[NDArray[Any]]) -> NDArray[Any]:
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def _reduced(rows: NDArray[np.float32], counts: NDArray[np.int64], how: Reduction) -> NDArray[np.float32]:
    starts = np.concatenate([[0], np.cumsum(counts)[:-1]])
    if how == "max":
        return np.maximum.reduceat(rows, starts, axis=0)
    means: NDArray[np.float32] = np.add.reduceat(rows, starts, axis=0)
    means /= counts[:, None]
    return means
