"""Block errors of pairs of frames, as a function of batches."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa

from udfs.arrow import NewColumns
from udfs.images import ImageError
from udfs.video import block_error, thumbnail

if TYPE_CHECKING:
    from collections.abc import Callable

    from udfs.video import DifferenceDetector

__all__ = ["BlockErrors"]


@dataclass(frozen=True, slots=True)
class BlockErrors:
    """Largest block error of each pair of frames, as a :class:`udfs.arrow.BatchFunction`.

    Parameters
    ----------
    detector : DifferenceDetector
        Size of thumbnails and number of blocks; the threshold is not used.
    reads : tuple of str
        Columns of frames and of their references.
    batch_size : int
        Rows of a batch. Default 64.
    """

    detector: DifferenceDetector
    reads: tuple[str, str] = ("frame", "reference")
    batch_size: int = 64

    @property
    def adds(self) -> tuple[pa.Field, ...]:
        """Column ``error``."""
        return (pa.field("error", pa.float64()),)

    def open(self, threads: int) -> Callable[[pa.RecordBatch], NewColumns]:
        """Return a function of batches."""
        del threads
        return partial(_errors, self.detector)


def _errors(detector: DifferenceDetector, batch: pa.RecordBatch) -> NewColumns:
    errors: list[float | None] = []
    reasons: list[str | None] = []
    for frame, reference in zip(*(column.to_pylist() for column in batch.columns), strict=True):
        try:
            first, second = (thumbnail(each, detector.size) for each in (reference, frame))
        except ImageError as error:
            errors.append(None)
            reasons.append(str(error))
            continue
        errors.append(block_error(first, second, detector.blocks) if first.shape == second.shape else float("inf"))
        reasons.append(None)
    return NewColumns([pa.array(errors, pa.float64())], reasons)
