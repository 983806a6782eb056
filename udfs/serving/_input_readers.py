"""Input readers, which convert a row of a request to the tensors of a model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pyarrow as pa

from udfs import images
from udfs.arrow import RowError
from udfs.inference import ImageFeed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from udfs.inference import Feed
    from udfs.serving._router import TensorSpec

__all__ = ["FeedReader", "InputReader", "TensorReader"]


class InputReader(Protocol):
    """Interface for reading a row of a request."""

    def read(self, inputs: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """Return the tensors of a row, without a batch axis.

        Raises
        ------
        udfs.arrow.RowError
            The row cannot be read.
        """


@dataclass(frozen=True, slots=True)
class TensorReader:
    """Reader that keeps tensors as they are, since the router has validated them."""

    inputs: tuple[TensorSpec, ...]

    def read(self, inputs: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """Return the tensors of the row; bytes and texts as objects."""
        return {spec.name: _value(inputs[spec.name], spec.dtype) for spec in self.inputs}


@dataclass(frozen=True, slots=True)
class FeedReader:
    """Reader that decodes images and tokenizes texts exactly as the featurizers of tables do."""

    feeds: tuple[Feed, ...]  # feeds whose columns are the names of the inputs

    def read(self, inputs: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """Decode the row."""
        arrays: dict[str, NDArray[Any]] = {}
        for feed in self.feeds:
            (name,) = feed.columns
            if isinstance(feed, ImageFeed):
                content = inputs[name]
                value = content.tobytes() if content.dtype == np.uint8 and content.ndim == 1 else content
                arrays[feed.layer] = images.decode(value, feed.preprocessing)
                continue
            column = pa.array([inputs[name].tobytes().decode()], pa.string())
            read = feed.take(pa.RecordBatch.from_arrays([column], [name]))
            if read.reasons[0] is not None:
                raise RowError(read.reasons[0])
            arrays |= {layer: array[0] for layer, array in read.arrays.items()}
        return arrays


def _value(array: NDArray[Any], dtype: str) -> NDArray[Any]:
    if dtype not in {"bytes", "str"}:
        return array
    value = np.empty((), object)
    value[()] = array.tobytes() if dtype == "bytes" else array.tobytes().decode()
    return value
