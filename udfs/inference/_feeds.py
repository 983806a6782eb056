"""Feeds: fill a network's inputs from the columns of an Arrow batch."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pyarrow as pa

from udfs import images
from udfs.arrow import from_binary, ragged_from_binary

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from udfs.handlers import TensorSpec
    from udfs.images import Preprocessing

__all__ = ["Feed", "ImageFeed", "NumbersFeed", "Read", "TensorFeed"]

# How Spark ML's vectors mark themselves in Arrow: a struct of type, size, indices and values.
_DENSE = 1


@dataclass(frozen=True, slots=True)
class Read:
    """Tensors that a feed read from a batch, and its bad records."""

    # By the layer that they fill, each of shape (items, *shape of one); the good records' alone.
    arrays: Mapping[str, NDArray[np.generic]]
    reasons: list[str | None]  # per record of the batch, why it is bad
    counts: NDArray[np.int64] | None = None  # items of each good record, at least 1; one each without it

    def of(self, valid: NDArray[np.bool_]) -> Read:
        """Keep the records that all feeds found good."""
        kept = valid[np.array([reason is None for reason in self.reasons], np.bool_)]
        if kept.all():
            return self
        counts = None if self.counts is None else self.counts[kept]
        items = kept if self.counts is None else np.repeat(kept, self.counts)
        return Read({layer: array[items] for layer, array in self.arrays.items()}, self.reasons, counts)


class Feed(Protocol):
    """A source for one or more of the layers that a run of the network begins with."""

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns that it reads."""

    def take(self, batch: pa.RecordBatch) -> Read:
        """Read a batch, whatever else the batch has."""


@dataclass(frozen=True, slots=True)
class ImageFeed:
    """Decoder of a column of images into one input of the network."""

    # Encoded bytes, paths, Spark image structs, or (nested) arrays of floats of preprocessing.shape; or arrays of the
    # first three, for several images per record.
    column: str
    layer: str  # name of the graph's input
    preprocessing: Preprocessing  # size, crop and normalisation of the images

    @property
    def columns(self) -> tuple[str, ...]:
        """The one column that it reads."""
        return (self.column,)

    def take(self, batch: pa.RecordBatch) -> Read:
        """Decode the column; a record with several images loses its bad ones, and is bad only if it has no good one."""
        column = batch.column(self.column)
        if not _is_image_list(column.type):
            array, reasons = self.read(column)
            return Read({self.layer: array}, reasons)
        array, image_reasons = self.read(column.flatten())
        reasons, counts, start = [], [], 0
        for length in column.value_lengths().to_pylist():
            of_record = image_reasons[start : start + (length or 0)]
            start += len(of_record)
            good = of_record.count(None)
            reasons.append(None if good else _why(length, of_record))
            if good:
                counts.append(good)
        return Read({self.layer: array}, reasons, np.array(counts, np.int64))

    def read(self, column: pa.Array) -> tuple[NDArray[np.float32], list[str | None]]:
        """Decode a column of one image per record.

        Returns
        -------
        array of float32, shape (good rows, *preprocessing.shape)
            Preprocessed images of the good rows.
        list of str or None
            Reason why each row is bad; ``None`` for a good row.
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
    """Reader of a layer's tensor that an earlier part materialised in a binary column."""

    column: str  # column that is read, and the layer of the graph that it feeds
    layer: str
    spec: TensorSpec  # shape and dtype of a record's tensor
    ragged: bool = False  # whether a value holds the tensors of one or more images, one after the other

    @property
    def columns(self) -> tuple[str, ...]:
        """The one column that it reads."""
        return (self.column,)

    def take(self, batch: pa.RecordBatch) -> Read:
        """View the column as an array; none of its records is bad."""
        column = batch.column(self.column)
        reasons: list[str | None] = [None] * len(column)
        if not self.ragged:
            return Read({self.layer: from_binary(column, self.spec)}, reasons)
        array, counts = ragged_from_binary(column, self.spec)
        return Read({self.layer: array}, reasons, counts)


@dataclass(frozen=True, slots=True)
class NumbersFeed:
    """Reader of a layer's tensor that the user holds as numbers: a dense Spark ML vector, or a flat or nested array."""

    column: str  # column that is read, and the layer of the graph that it feeds
    layer: str
    spec: TensorSpec  # shape and dtype of a record's tensor

    @property
    def columns(self) -> tuple[str, ...]:
        """The one column that it reads."""
        return (self.column,)

    def take(self, batch: pa.RecordBatch) -> Read:
        """Copy the column into one array; a null and a tensor of the wrong shape are bad."""
        tensors: list[NDArray[np.float32]] = []
        reasons: list[str | None] = []
        for value in batch.column(self.column):
            try:
                tensors.append(_numbers(value, self.spec.shape))
                reasons.append(None)
            except images.ImageError as error:
                reasons.append(str(error))
        array = np.empty((len(tensors), *self.spec.shape), self.spec.dtype)
        for place, tensor in enumerate(tensors):
            array[place] = tensor
        return Read({self.layer: array}, reasons)


def _is_image_list(kind: pa.DataType) -> bool:
    """Return whether values are lists of images; a list of numbers is the tensor of one image."""
    if not pa.types.is_list(kind) and not pa.types.is_large_list(kind):
        return False
    inner = kind.value_type
    return any(
        test(inner)
        for test in (
            pa.types.is_binary,
            pa.types.is_large_binary,
            pa.types.is_string,
            pa.types.is_large_string,
            pa.types.is_struct,
        )
    )


def _why(length: int | None, reasons: list[str | None]) -> str:
    if not length:
        return "null" if length is None else "no images"
    return f"no good image: {reasons[0]}" + (f" and {length - 1} more" if length > 1 else "")


def _value(value: pa.Scalar, shape: tuple[int, ...]) -> Any:
    """Convert to what :func:`udfs.images.decode` takes; numbers become one tensor without a Python list of floats."""
    if not value.is_valid or not pa.types.is_list(value.type):
        return value.as_py()
    return _tensor(value.values, shape)


def _numbers(value: pa.Scalar, shape: tuple[int, ...]) -> NDArray[np.float32]:
    if not value.is_valid:
        raise images.ImageError("null")
    if not pa.types.is_struct(value.type):
        return _tensor(value.values, shape)
    if value["type"].as_py() != _DENSE:
        raise images.ImageError("sparse vector", "a layer's tensor is a dense one")
    return _tensor(value["values"].values, shape)


def _tensor(flat: pa.Array, shape: tuple[int, ...]) -> NDArray[np.float32]:
    extents: tuple[int | None, ...] = (len(flat),)
    while pa.types.is_list(flat.type):
        # Height, width, channels are as many numbers in another order: the nesting has to be the tensor's own.
        lengths = set(flat.value_lengths().to_pylist())
        extents += (lengths.pop() if len(lengths) == 1 else None,)
        flat = flat.flatten()
    if flat.null_count or extents not in (shape, (math.prod(shape),)):
        raise images.ImageError("tensor of the wrong shape", f"{extents}, {flat.null_count} null, for {shape}")
    numbers: NDArray[np.float32] = flat.to_numpy(zero_copy_only=False).astype(np.float32)
    return numbers.reshape(shape)
