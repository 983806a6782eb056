"""Class scores of a linear head over the features of a network."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from udfs.arrow import NewColumns, to_lists

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from udfs.arrow import BatchFunction
    from udfs.specialization._expert_head import LinearHead

__all__ = ["LinearScores", "features_of"]


@dataclass(frozen=True, slots=True)
class LinearScores:
    """Class scores of a linear head, as a :class:`udfs.arrow.BatchFunction`.

    Parameters
    ----------
    features : BatchFunction
        Function whose first new column has the features, a list per row.
    head : LinearHead
        Weights and biases.
    column : str
        Column of the scores. Default ``"scores"``.
    """

    features: BatchFunction
    head: LinearHead = field(repr=False)
    column: str = "scores"

    @property
    def batch_size(self) -> int:
        """Rows of a batch."""
        return self.features.batch_size

    @property
    def reads(self) -> tuple[str, ...]:
        """Columns that the features are computed from."""
        return self.features.reads

    @property
    def adds(self) -> tuple[pa.Field, ...]:
        """Column of scores."""
        return (pa.field(self.column, pa.list_(pa.float32())),)

    def open(self, threads: int) -> Callable[[pa.RecordBatch], NewColumns]:
        """Open the network."""
        return partial(self._run, self.features.open(threads))

    def _run(self, infer: Callable[[pa.RecordBatch], NewColumns], batch: pa.RecordBatch) -> NewColumns:
        new = infer(batch)
        # A batch without a good row has no features.
        scores = self.head.scores(features_of(new).reshape(-1, self.head.weight.shape[1]))
        valid = np.array([reason is None for reason in new.reasons], np.bool_)
        return new._replace(columns=[to_lists(scores, valid)])


def features_of(new: NewColumns) -> NDArray[np.float32]:
    """Return the first new column as an array of shape (good rows, features)."""
    column = new.columns[0]
    good = column.filter(column.is_valid())
    if isinstance(good, pa.ExtensionArray):
        good = good.storage
    flat = good.flatten().to_numpy(zero_copy_only=False).astype(np.float32)
    values: NDArray[np.float32] = flat.reshape(len(good), -1) if len(good) else flat.reshape(0, 0)
    return values
