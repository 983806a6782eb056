"""Partial CNN inference over Arrow batches (Vista, definitions 3.6 and 3.7): the function that ``mapInArrow`` runs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyspark import TaskContext

from udfs import images, tensors
from udfs.allocator import keep_freed_memory
from udfs.batches import rebatch
from udfs.model import ModelSource, open_model
from udfs.pooling import Pooling, pool

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

    from udfs.handlers import TensorSpec
    from udfs.preprocessing import Preprocessing
    from udfs.rows import RowPolicy

__all__ = ["Feature", "ImageFeed", "Inference", "Materialised", "TensorFeed"]


@dataclass(frozen=True, slots=True)
class ImageFeed:
    """An input of the network that is decoded from a column of images.

    Parameters
    ----------
    column : str
        Encoded bytes, paths, Spark ``image`` structs, or (nested) arrays of floats of ``preprocessing.shape``.
    layer : str
        Name of the graph's input.
    preprocessing : Preprocessing
    """

    column: str
    layer: str
    preprocessing: Preprocessing

    def read(self, column: pa.Array) -> tuple[NDArray[np.float32], list[str | None]]:
        """Decode a column.

        Returns
        -------
        array of float32, shape (good rows, 3, height, width)
        list of str or None
            Per row, why it is bad.
        """
        shape = self.preprocessing.shape
        decoded = np.empty((len(column), *shape), np.float32)
        reasons: list[str | None] = []
        good = 0
        for value in column:
            try:
                images.decode(_value(value, shape), self.preprocessing, out=decoded[good])
                reasons.append(None)
                good += 1
            except images.ImageError as error:
                reasons.append(str(error))
        return decoded[:good], reasons


@dataclass(frozen=True, slots=True)
class TensorFeed:
    """A layer whose tensor an earlier part materialised in a binary column."""

    column: str
    layer: str
    spec: TensorSpec

    def read(self, column: pa.Array) -> tuple[NDArray[np.generic], list[str | None]]:
        """View a column as an array of shape ``(n, *spec.shape)``; no row of it can be bad."""
        return tensors.from_binary(column, self.spec), [None] * len(column)


@dataclass(frozen=True, slots=True)
class Feature:
    """A layer to deliver as a feature vector, in a column of ``array<float>``."""

    layer: str
    column: str
    pooling: Pooling


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
    feeds : tuple
        What to read.
    features, materialised : tuple
        What to add, in this order, after the columns of ``keep``.
    keep : tuple of str
        Columns that pass through, in the order of the output.
    policy : RowPolicy
        What becomes of a row that one of the feeds finds bad.
    batch_size : int
        Records a run of the network; batches are formed across Arrow batches.
    device : str
        As for the handler.
    """

    source: ModelSource
    feeds: tuple[ImageFeed | TensorFeed, ...]
    features: tuple[Feature, ...]
    materialised: tuple[Materialised, ...]
    keep: tuple[str, ...]
    policy: RowPolicy
    batch_size: int
    device: str

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
        read = [feed.read(batch.column(feed.column)) for feed in self.feeds]
        reasons = [next(filter(None, row), None) for row in zip(*(reasons for _, reasons in read), strict=True)]
        valid = self.policy.valid(reasons, done, ", ".join(feed.column for feed in self.feeds))
        values = self._infer(read, valid, threads) if valid.any() else {}
        columns = {name: batch.column(name) for name in self.keep}
        for feature in self.features:
            rows = pool(values[feature.layer], feature.pooling) if values else np.empty((0, 0), np.float32)
            columns[feature.column] = tensors.to_lists(rows, valid)
        for tensor in self.materialised:
            whole = values[tensor.layer] if values else np.empty((0, 0), np.float32)
            columns[tensor.column] = tensors.to_binary(whole, valid)
        return self.policy.emit(columns, reasons, valid)

    def _infer(
        self, read: list[tuple[NDArray[np.generic], list[str | None]]], valid: NDArray[np.bool_], threads: int
    ) -> dict[str, NDArray[np.generic]]:
        fed = {feed.layer: _only(array, own, valid) for feed, (array, own) in zip(self.feeds, read, strict=True)}
        want = dict.fromkeys([feature.layer for feature in self.features] + [kept.layer for kept in self.materialised])
        return open_model(self.source, self.device, threads).run(fed, list(want))


def _value(value: pa.Scalar, shape: tuple[int, ...]) -> Any:
    """What :func:`udfs.images.decode` takes; arrays of numbers become one tensor without a Python list of floats."""
    if not value.is_valid or not pa.types.is_list(value.type):
        return value.as_py()
    flat = value.values
    found: tuple[int | None, ...] = (len(flat),)
    while pa.types.is_list(flat.type):
        # Height, width, channels are as many numbers in another order: the nesting has to be the tensor's own.
        lengths = set(flat.value_lengths().to_pylist())
        found += (lengths.pop() if len(lengths) == 1 else None,)
        flat = flat.flatten()
    if flat.null_count or found not in (shape, (math.prod(shape),)):
        raise images.ImageError("tensor of the wrong shape", f"{found}, {flat.null_count} null, for {shape}")
    return flat.to_numpy(zero_copy_only=False).astype(np.float32).reshape(shape)


def _only(array: NDArray[np.generic], own: list[str | None], valid: NDArray[np.bool_]) -> NDArray[np.generic]:
    """Of the rows that one feed found good, those that all found good."""
    good = np.array([reason is None for reason in own])
    return array if len(array) == valid.sum() else array[valid[good]]
