"""Shares of one image's places, one per task: the functions that ``mapInArrow`` runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from udfs.handlers import framework
from udfs.occlusion._naive import open_occluder
from udfs.occlusion._task_model import task_model

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from udfs.inference import ModelSource
    from udfs.occlusion._score import SettledScore
    from udfs.occlusion._settings import Occlusion

__all__ = ["COST", "VALUES", "Share", "ShareCost"]

VALUES = pa.schema([("place", pa.int64()), ("values", pa.list_(pa.float32()))])
"""Schema of a place, counted row by row, and the targets' scores there."""

COST = pa.schema([("run", pa.float64())])
"""Schema of the seconds that a task takes for work that is worth a run of the whole network."""


@dataclass(frozen=True, slots=True)
class Share:
    """Computation of some places of a heat map; each input row is the number of a share.

    Parameters
    ----------
    source : ModelSource
    occlusion : Occlusion
    device : str
    pixels : array of float32
        Of the network's input.
    score : SettledScore or None
        Of the whole image, which the driver settled: no worker decides anew. ``None`` where there are no places.
    targets : sequence of int
        Elements of the score.
    places : array of int64
        Of the heat map, counted row by row.
    shares : int
        Number of parts, each with places from everywhere: those at the borders cost less.
    """

    source: ModelSource
    occlusion: Occlusion
    device: str
    pixels: NDArray[np.float32]
    score: SettledScore | None
    targets: Sequence[int]
    places: NDArray[np.int64]
    shares: int

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
    """Measurement of the pace of a task while others measure beside it; each input row is a task.

    Parameters
    ----------
    source, occlusion, device
        As for :class:`Share`.
    """

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
