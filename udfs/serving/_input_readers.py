"""Input readers, which convert a row of a request to the tensors of a model."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pyarrow as pa

from udfs import images
from udfs.arrow import RowError
from udfs.inference import ImageFeed
from udfs.serving._texts import unpack_contents

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from udfs.inference import Feed
    from udfs.serving._router import TensorSpec

__all__ = ["FeedReader", "InputReader", "TensorReader"]

# Pixels of an encoded image per pixel of the model's input, and the least limit: a screen of 4K.
_MOST_PER_PIXEL = 256
_LEAST_LIMIT = 1 << 23
_TOO_MANY = "too many pixels"


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
        return {spec.name: _value(inputs[spec.name], spec) for spec in self.inputs}


@dataclass(frozen=True, slots=True)
class FeedReader:
    """Reader that decodes images and tokenizes texts exactly as the featurizers of tables do.

    An image may have 256 times as many pixels as the model reads, and 8,388,608 in any case: a small file may expand to
    gigabytes, and delay the other models. Larger JPEG files are decoded at a fraction of their size.
    """

    feeds: tuple[Feed, ...]  # feeds whose columns are the names of the inputs

    def read(self, inputs: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """Decode the row."""
        arrays: dict[str, NDArray[Any]] = {}
        for feed in self.feeds:
            (name,) = feed.columns
            if isinstance(feed, ImageFeed):
                content = inputs[name]
                value = content.tobytes() if content.dtype == np.uint8 and content.ndim == 1 else content
                arrays[feed.layer] = _decoded(value, feed.preprocessing)
                continue
            column = pa.array([inputs[name].tobytes().decode()], pa.string())
            read = feed.take(pa.RecordBatch.from_arrays([column], [name]))
            if read.reasons[0] is not None:
                raise RowError(read.reasons[0])
            arrays |= {layer: array[0] for layer, array in read.arrays.items()}
        return arrays


@cache
def _limited(preprocessing: images.Preprocessing) -> images.Preprocessing:
    limit = max(_LEAST_LIMIT, _MOST_PER_PIXEL * preprocessing.crop**2)
    return replace(preprocessing, max_pixels=min(limit, preprocessing.max_pixels))


def _decoded(value: Any, preprocessing: images.Preprocessing) -> NDArray[np.float32]:
    try:
        return images.decode(value, _limited(preprocessing), draft=True)
    except images.ImageError as error:
        if error.reason == _TOO_MANY:
            raise RowError(_TOO_MANY, f"{error.detail}. Resize the image before sending it") from error
        raise


def _value(array: NDArray[Any], spec: TensorSpec) -> NDArray[Any]:
    if spec.dtype not in {"bytes", "str"}:
        return array
    if len(spec.shape) == 1:
        values = np.empty((), object)
        values[()] = None if array.dtype == np.bool_ else array.tobytes()
    else:
        values = unpack_contents(array, len(spec.shape) - 1)
    if spec.dtype == "str":
        for place, content in np.ndenumerate(values):
            values[place] = None if content is None else content.decode()
    return values
