"""Predictions of several linear heads over the output of a network, one column each."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from udfs.arrow import NewColumns
from udfs.serving._scoring import InferenceScoring

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from udfs.serving._heads import Head

__all__ = ["AttributeScoring"]

_TYPES = {
    "boolean": pa.bool_(),
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "string": pa.string(),
}


@dataclass(frozen=True, slots=True)
class AttributeScoring(InferenceScoring):
    """Batch function that runs a network once and adds the predicted class of each attribute.

    Parameters
    ----------
    inference : Inference
        Inference with one feature, which all heads read.
    head : Head
        Heads of all attributes, one below the other.
    columns : sequence of str
        Column of each attribute.
    classes : sequence of sequences
        Classes of each attribute, in the order of the outputs of its head.
    types : sequence of str
        Type of each column: boolean, tinyint, smallint, int, bigint or string.
    """

    head: Head = field(repr=False)
    columns: tuple[str, ...]
    classes: tuple[tuple[bool | int | str, ...], ...]
    types: tuple[str, ...]

    @property
    def adds(self) -> tuple[pa.Field, ...]:
        """Column of each attribute."""
        return tuple(pa.field(name, _TYPES[kind]) for name, kind in zip(self.columns, self.types, strict=True))

    def open(self, threads: int) -> Callable[[pa.RecordBatch], NewColumns]:
        """Open the network."""
        return partial(self._run, self.inference.open(threads))

    def _run(self, infer: Callable[[pa.RecordBatch], NewColumns], batch: pa.RecordBatch) -> NewColumns:
        features = infer(batch)
        valid = np.array([reason is None for reason in features.reasons], np.bool_)
        scores = np.empty((0, len(self.head.bias)), np.float32)
        if valid.any():
            rows = features.columns[0].flatten().to_numpy(zero_copy_only=False)
            scores = self.head(rows.reshape(int(valid.sum()), -1))
        ends = np.cumsum([0, *map(len, self.classes)]).tolist()
        columns = [
            self._column(scores[:, start:end].argmax(axis=1), valid, classes, _TYPES[kind])
            for (start, end), classes, kind in zip(pairwise(ends), self.classes, self.types, strict=True)
        ]
        return NewColumns(columns, features.reasons, features.details)

    def _column(
        self, best: NDArray[np.int64], valid: NDArray[np.bool_], classes: Sequence[bool | int | str], kind: pa.DataType
    ) -> pa.Array:
        places = np.zeros(len(valid), np.int64)
        places[valid] = best
        return pa.array(list(classes), kind).take(pa.array(places, mask=~valid))
