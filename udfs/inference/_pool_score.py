"""Score the records of a pool by how uncertain a network is about them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from udfs.arrow import NewColumns

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from udfs.inference._prediction import Prediction
    from udfs.inference._uncertainty import OutputUncertainty

__all__ = ["PoolScore"]


@dataclass(frozen=True, slots=True)
class PoolScore:
    """Uncertainty of a network's predictions, a number for each row. A :class:`udfs.arrow.BatchFunction`."""

    prediction: Prediction
    uncertainty: OutputUncertainty
    output: str  # column to add, double
    mask: str | None = None  # column of the tags that is 0 where a token is padding

    @property
    def batch_size(self) -> int:
        """Rows of a batch."""
        return self.prediction.batch_size

    @property
    def reads(self) -> tuple[str, ...]:
        """Columns that the network reads."""
        return self.prediction.reads

    @property
    def adds(self) -> tuple[pa.Field, ...]:
        """The column of scores."""
        return (pa.field(self.output, pa.float64()),)

    def open(self, threads: int) -> Callable[[pa.RecordBatch], NewColumns]:
        """Open the network, once a process."""
        return partial(self._score, self.prediction.open(threads))

    def _score(self, predict: Callable[[pa.RecordBatch], NewColumns], batch: pa.RecordBatch) -> NewColumns:
        new = predict(batch)
        outputs = new.columns[0]
        good = outputs.is_valid().to_numpy(zero_copy_only=False)
        scores = np.zeros(batch.num_rows)
        if good.any():
            flat = outputs.drop_null().flatten().to_numpy().reshape(int(good.sum()), -1)
            scores[good] = self.uncertainty(flat, self._present(batch, good))
        # NaN would be Spark's largest number, and rank first what the network can say nothing of.
        return NewColumns([pa.array(scores, mask=~good | np.isnan(scores))], new.reasons, new.details)

    def _present(self, batch: pa.RecordBatch, good: NDArray[np.bool_]) -> NDArray[np.bool_] | None:
        if self.uncertainty.task.tokens is None or self.mask is None:
            return None
        mask = batch.column(self.mask).filter(pa.array(good)).flatten().to_numpy(zero_copy_only=False)
        present: NDArray[np.bool_] = mask.reshape(-1, self.uncertainty.task.tokens) > 0
        return present
