"""Hand-made image features over Arrow batches: the baseline that CNN features have to beat (Vista, section 5.2)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from udfs.arrow import VECTOR, NewColumns, to_lists
from udfs.images import MAX_PIXELS, ImageError, hog, hog_length

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["HOGExtraction"]


@dataclass(frozen=True, slots=True)
class HOGExtraction:
    """Histograms of oriented gradients of the images of a batch. A :class:`udfs.arrow.BatchFunction`."""

    column: str  # images, as udfs.images.hog takes them
    output: str  # column of array<float> to add
    size: int  # side of the resized picture, in pixels
    batch_size: int  # images per batch
    max_pixels: int = MAX_PIXELS  # a larger image is a bad one

    @property
    def reads(self) -> tuple[str, ...]:
        """The column of images."""
        return (self.column,)

    @property
    def adds(self) -> tuple[pa.Field, ...]:
        """The column of features."""
        return (pa.field(self.output, VECTOR),)

    def open(self, threads: int) -> Callable[[pa.RecordBatch], NewColumns]:
        """Return the descriptor, which has no model to open and uses one thread."""
        del threads
        return self._describe

    def _describe(self, batch: pa.RecordBatch) -> NewColumns:
        rows: list[np.ndarray] = []
        reasons: list[str | None] = []
        for value in batch.column(self.column):
            try:
                rows.append(hog(value.as_py(), self.size, max_pixels=self.max_pixels))
                reasons.append(None)
            except ImageError as error:
                reasons.append(str(error))
        valid = np.array([reason is None for reason in reasons], np.bool_)
        features = np.stack(rows) if rows else np.empty((0, hog_length(self.size)), np.float32)
        return NewColumns.explained([to_lists(features, valid)], reasons)
