"""Labelled images of a Parquet folder, decoded for a network."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from udfs.inference import ImageFeed

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from udfs.images import Preprocessing
    from udfs.store import Store

__all__ = ["IMAGE", "LABEL", "LabelledImages", "read_images"]

IMAGE, LABEL = "image", "label"
"""Columns of the folder: the image, and the number of its class."""

# Decoded images stay in memory up to this size; more are decoded again in each epoch.
_DECODED_BYTES = 1 << 30
# Rows that are decoded at a time.
_ROWS = 64


@dataclass(frozen=True, slots=True)
class LabelledImages:
    """Images that could be decoded, and the numbers of their classes.

    Parameters
    ----------
    column : pyarrow.Array
        Images as they were read.
    labels : array of int64, shape (rows,)
        Numbers of the classes.
    feed : ImageFeed
        Decoder for the network.
    skipped : int
        Number of images that could not be decoded.
    decoded : array of float32, shape (rows, channels, height, width), optional
        All images, if they are few.
    """

    column: pa.Array
    labels: NDArray[np.int64]
    feed: ImageFeed
    skipped: int
    decoded: NDArray[np.float32] | None

    def __len__(self) -> int:
        return len(self.labels)

    def batch(self, rows: NDArray[np.int64] | None = None) -> NDArray[np.float32]:
        """Return the decoded images of some rows, by default of all, of shape (rows, channels, height, width)."""
        if rows is None:
            rows = np.arange(len(self))
        if self.decoded is not None:
            return self.decoded[rows]
        return self.feed.read(self.column.take(pa.array(rows)))[0]


def read_images(store: Store, part: str, preprocessing: Preprocessing) -> LabelledImages:
    """Read a folder of images that Spark wrote, in the order of its files, and decode them once."""
    names = [name for name in sorted(store.list(part)) if name.endswith(".parquet")]
    table = pa.concat_tables([pq.read_table(pa.BufferReader(store.read(part, name))) for name in names])
    column = table.column(IMAGE).combine_chunks()
    labels = table.column(LABEL).to_numpy().astype(np.int64)
    feed = ImageFeed(IMAGE, IMAGE, preprocessing)
    keep = len(column) * int(np.prod(preprocessing.shape)) * 4 <= _DECODED_BYTES
    pieces: list[NDArray[np.float32]] = []
    good: list[bool] = []
    for start in range(0, len(column), _ROWS):
        array, reasons = feed.read(column.slice(start, _ROWS))
        good.extend(reason is None for reason in reasons)
        if keep:
            pieces.append(array)
    valid = np.array(good, np.bool_)
    decoded = np.concatenate(pieces) if pieces else None
    return LabelledImages(column.filter(pa.array(valid)), labels[valid], feed, int((~valid).sum()), decoded)
