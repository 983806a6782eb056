"""Heat maps over Arrow batches, or measurements that tune them."""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from udfs.arrow import VECTOR, NewColumns
from udfs.handlers import framework
from udfs.occlusion._naive_occluder import open_occluder
from udfs.occlusion._occlusion import TargetError
from udfs.occlusion._score import ScoreError
from udfs.occlusion._task_model import task_model
from udfs.occlusion._verification import VerificationError

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from udfs.inference import ImageFeed, ModelSource
    from udfs.occlusion._occlusion import Occlusion

__all__ = ["DETAILS", "Explaining"]

DETAILS = pa.struct(
    [
        ("target", pa.int32()),
        ("predicted", pa.int32()),
        ("probability", pa.float32()),
        ("rows", pa.int32()),
        ("columns", pa.int32()),
        ("estimated_ssim", pa.float32()),
        ("seconds", pa.float32()),
        ("mode", pa.string()),
        ("patch", pa.int32()),
        ("stride", pa.int32()),
        ("image_rows", pa.int32()),
        ("image_columns", pa.int32()),
        ("row_starts", pa.list_(pa.int32())),
        ("column_starts", pa.list_(pa.int32())),
        ("score", pa.string()),
        ("verified", pa.int32()),
        ("difference", pa.float32()),
        ("elements", pa.int32()),
        ("top", pa.list_(pa.struct([("element", pa.int32()), ("score", pa.float32())]))),
        ("theoretical_speedup", pa.float32()),
        ("model", pa.string()),
        ("random_weights", pa.bool_()),
    ]
)
"""Type of the details of a heat map."""

_IMAGES = 8


@dataclass(frozen=True, slots=True)
class Explaining:
    """Heat maps of the images of a batch. A :class:`udfs.arrow.BatchFunction`.

    A row is bad where its image cannot be read, its target is not an element of the score, or a verified place differs.
    """

    source: ModelSource  # network, as tasks open it
    feed: ImageFeed  # column of images and how it fills the network's input
    # Column of the element of the score to map. Without it, or where it is null, the largest element is mapped.
    target: str | None
    occlusion: Occlusion  # settings of the heat maps
    output: str  # columns to add: the heat map, row by row, and a struct of DETAILS
    details: str
    device: str  # device of the tasks
    model: str = ""  # name of the network in the roster
    has_random_weights: bool = False  # whether the network has random weights
    # SSIM to reach. With it, `output` has the numbers of a udfs.occlusion.Measured instead of heat maps.
    tuning: float | None = None

    @property
    def batch_size(self) -> int:
        """Images per batch: few, as each runs the network a thousand times."""
        return _IMAGES

    @property
    def reads(self) -> tuple[str, ...]:
        """The column of images, and that of targets."""
        return (*self.feed.columns, *([self.target] if self.target else []))

    @property
    def adds(self) -> tuple[pa.Field, ...]:
        """Heat maps and their details; in tuning only the measurements."""
        output = pa.field(self.output, VECTOR)
        return (output,) if self.tuning is not None else (output, pa.field(self.details, DETAILS))

    def open(self, threads: int) -> Callable[[pa.RecordBatch], NewColumns]:
        """Open the network with the task's threads."""
        del threads
        model = task_model(self.source, self.device)
        if self.tuning is None:
            return partial(self._explain, open_occluder(framework(self.source.framework), model, self.occlusion))
        from udfs.occlusion.tuning import Tuning  # imports torch, an optional extra

        return partial(self._explain, Tuning(model, self.occlusion, self.tuning))

    def _explain(self, occluder: Any, batch: pa.RecordBatch) -> NewColumns:
        read = self.feed.take(batch)
        (pixels,) = read.arrays.values()
        targets = batch.column(self.target).to_pylist() if self.target else [None] * batch.num_rows
        reasons, images = list(read.reasons), iter(pixels)
        maps: list[list[float] | None] = []
        details: list[dict[str, Any] | None] = []
        for row, target in enumerate(targets):
            explained: tuple[list[float] | None, dict[str, Any] | None] = None, None
            if reasons[row] is None:
                image = next(images)
                try:
                    explained = self._explained(occluder, image, target)
                except (ScoreError, TargetError, VerificationError) as error:
                    reasons[row] = str(error)
            maps.append(explained[0])
            details.append(explained[1])
        columns = [pa.array(maps, VECTOR)]
        if self.tuning is None:
            columns.append(pa.array(details, DETAILS))
        return NewColumns(columns, reasons)

    def _explained(self, occluder: Any, image: NDArray[Any], target: int | None) -> tuple[list[float], dict[str, Any]]:
        started = time.perf_counter()
        if self.tuning is not None:
            return occluder.measure(image, target).numbers(), {}
        heat_map = occluder.heat_map(occluder.opened(image), target)
        rows, columns = heat_map.values.shape
        return heat_map.values.ravel().tolist(), {
            "target": heat_map.target,
            "predicted": heat_map.predicted,
            "probability": heat_map.probability,
            "rows": rows,
            "columns": columns,
            "estimated_ssim": heat_map.likeness,
            "seconds": time.perf_counter() - started,
            "score": heat_map.score,
            "verified": heat_map.verified,
            "difference": heat_map.difference,
            "elements": heat_map.elements,
            "top": [{"element": element, "score": score} for element, score in heat_map.top],
            "theoretical_speedup": occluder.theoretical_speedup,
            "model": self.model,
            "random_weights": self.has_random_weights,
            **self._geometry,
        }

    @property
    def _geometry(self) -> dict[str, Any]:
        """Places of the square patch on the network's input, from which the heat map can be drawn."""
        grid = self.occlusion.grid
        return {
            "mode": self.occlusion.mode,
            "patch": grid.patch[0],
            "stride": grid.stride[0],
            "image_rows": grid.image[0],
            "image_columns": grid.image[1],
            "row_starts": grid.starts(0).tolist(),
            "column_starts": grid.starts(1).tolist(),
        }
