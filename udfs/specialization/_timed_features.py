"""Features of training rows, with the time that each took."""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Callable

    from udfs.arrow import BatchFunction, NewColumns

__all__ = ["TimedFeatures"]

_WARM_UP_ROWS = 8


@dataclass(frozen=True, slots=True)
class TimedFeatures:
    """Features of a network and the seconds per row of their batch, as a :class:`udfs.arrow.BatchFunction`.

    Parameters
    ----------
    features : BatchFunction
        Function whose first new column has the features.
    seconds : str
        Column of the times. Default ``"seconds"``.
    """

    features: BatchFunction
    seconds: str = "seconds"

    @property
    def batch_size(self) -> int:
        """Rows of a batch."""
        return self.features.batch_size

    @property
    def reads(self) -> tuple[str, ...]:
        """Columns that the network reads."""
        return self.features.reads

    @property
    def adds(self) -> tuple[pa.Field, ...]:
        """Features and times."""
        return (self.features.adds[0], pa.field(self.seconds, pa.float64()))

    def open(self, threads: int) -> Callable[[pa.RecordBatch], NewColumns]:
        """Open the network."""
        return partial(self._run, self.features.open(threads), [])

    def _run(
        self, infer: Callable[[pa.RecordBatch], NewColumns], begun: list[bool], batch: pa.RecordBatch
    ) -> NewColumns:
        if not begun:
            infer(batch.slice(0, _WARM_UP_ROWS))
            begun.append(True)
        start = time.perf_counter()
        new = infer(batch)
        seconds = (time.perf_counter() - start) / batch.num_rows
        return new._replace(columns=[new.columns[0], pa.array(np.full(batch.num_rows, seconds))])
