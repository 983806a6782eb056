"""From what a request has to what a network reads: a row at a time, so that a bad one is alone."""

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
    """Reads a row of a request."""

    def read(self, inputs: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """Give the tensors of one row, without a batch axis.

        Raises
        ------
        udfs.arrow.RowError
            The row cannot be read.
        """


@dataclass(frozen=True, slots=True)
class TensorReader:
    """Passes tensors on as they are; the router has checked them.

    Parameters
    ----------
    inputs : tuple of TensorSpec
    """

    inputs: tuple[TensorSpec, ...]

    def read(self, inputs: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """Give the row's own tensors; bytes and texts as objects."""
        return {spec.name: _value(inputs[spec.name], spec.dtype) for spec in self.inputs}


@dataclass(frozen=True, slots=True)
class FeedReader:
    """Decodes images and tokenizes texts exactly as the featurizers of tables do.

    Parameters
    ----------
    feeds : tuple of Feed
        Their columns are the names of the inputs.
    """

    feeds: tuple[Feed, ...]

    def read(self, inputs: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """Decode the row."""
        arrays: dict[str, NDArray[Any]] = {}
        for feed in self.feeds:
            (name,) = feed.columns
            if isinstance(feed, ImageFeed):
                given = inputs[name]
                value = given.tobytes() if given.dtype == np.uint8 and given.ndim == 1 else given
                arrays[feed.layer] = images.decode(value, feed.preprocessing)
                continue
            column = pa.array([inputs[name].tobytes().decode()], pa.string())
            read = feed.take(pa.RecordBatch.from_arrays([column], [name]))
            if read.reasons[0] is not None:
                raise RowError(read.reasons[0])
            arrays |= {layer: array[0] for layer, array in read.arrays.items()}
        return arrays


def _value(given: NDArray[Any], dtype: str) -> NDArray[Any]:
    if dtype not in {"bytes", "str"}:
        return given
    value = np.empty((), object)
    value[()] = given.tobytes() if dtype == "bytes" else given.tobytes().decode()
    return value
