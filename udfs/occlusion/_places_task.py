"""Tasks that compute a share of one image's places: functions for ``mapInArrow``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from udfs.handlers import framework
from udfs.occlusion._naive_occluder import open_occluder
from udfs.occlusion._task_model import task_model

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from udfs.inference import ModelSource
    from udfs.occlusion._occlusion import Occlusion
    from udfs.occlusion._score import SettledScore

__all__ = ["COST", "VALUES", "Share", "ShareCost"]

VALUES = pa.schema([("place", pa.int64()), ("values", pa.list_(pa.float32()))])
"""Schema of a place, counted row by row, and the targets' scores there."""

COST = pa.schema([("run", pa.float64())])
"""Schema of the seconds that a task takes for a run of the whole network."""


@dataclass(frozen=True, slots=True)
class Share:
    """Computation of shares of a heat map's places; each input row is the number of a share."""

    source: ModelSource  # network, as tasks open it
    occlusion: Occlusion  # settings of the heat map
    device: str  # device of the tasks
    pixels: NDArray[np.float32]  # input of the network
    score: SettledScore | None  # score that the driver settled on the whole image. None where there are no places.
    targets: Sequence[int]  # elements of the score
    places: NDArray[np.int64]  # places to compute, counted row by row
    shares: int  # number of shares, each with places from the whole map: those at the borders cost less

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield batches of :data:`VALUES`."""
        shape = self.occlusion.grid.shape
        for batch in batches:
            for number in batch.column(0).to_pylist():
                wanted = np.zeros(shape, np.bool_)
                wanted.flat[self.places[number :: self.shares]] = True
                occluder = _occluder(self.source, self.occlusion, self.device)
                opened = occluder.opened(self.pixels)
                for index, values in occluder.values(opened, self.score, self.targets, wanted):
                    places = np.ravel_multi_index(tuple(index.T), shape)
                    columns = [pa.array(places), pa.array(values.tolist(), VALUES.field("values").type)]
                    yield pa.record_batch(columns, schema=VALUES)


@dataclass(frozen=True, slots=True)
class ShareCost:
    """Measurement of the pace of a task while other tasks measure as well; each input row is a task."""

    source: ModelSource
    occlusion: Occlusion
    device: str

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield one row of :data:`COST` per input row."""
        for batch in batches:
            for _ in range(batch.num_rows):
                pace = _occluder(self.source, self.occlusion, self.device).measured_pace()
                yield pa.record_batch([pa.array([pace.run_seconds])], schema=COST)


def _occluder(source: ModelSource, occlusion: Occlusion, device: str) -> Any:
    model = task_model(source, device)
    return open_occluder(framework(source.framework), model, occlusion)
