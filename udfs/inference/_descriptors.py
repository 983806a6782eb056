"""Hand-made image features over Arrow batches: what CNN features have to beat (Vista, section 5.2)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from udfs.arrow import rebatch, to_lists
from udfs.images import ImageError, hog, hog_length

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import pyarrow as pa

    from udfs.inference._rows import RowPolicy

__all__ = ["HOGExtraction"]


@dataclass(frozen=True, slots=True)
class HOGExtraction:
    """One pass that adds histograms of oriented gradients. Call it with ``mapInArrow``.

    Parameters
    ----------
    column : str
        Images, as :func:`udfs.images.hog` takes them.
    output : str
        Column of ``array<float>`` to add after those of ``keep``.
    size : int
        Side of the resized picture, in pixels.
    keep : tuple of str
        Columns that pass through.
    policy : RowPolicy
    batch_size : int
        Images handled at a time.
    """

    column: str
    output: str
    size: int
    keep: tuple[str, ...]
    policy: RowPolicy
    batch_size: int

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Run over the batches of one partition."""
        done = 0
        for batch in rebatch(batches, self.batch_size):
            rows: list[np.ndarray] = []
            reasons: list[str | None] = []
            for value in batch.column(self.column):
                try:
                    rows.append(hog(value.as_py(), self.size))
                    reasons.append(None)
                except ImageError as error:
                    reasons.append(str(error))
            valid = self.policy.valid(reasons, done, self.column)
            features = np.stack(rows) if rows else np.empty((0, hog_length(self.size)), np.float32)
            columns = {name: batch.column(name) for name in self.keep}
            columns[self.output] = to_lists(features, valid)
            yield self.policy.emit(columns, reasons, valid)
            done += batch.num_rows
