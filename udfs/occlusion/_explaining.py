"""Heat maps, or what tunes them, over Arrow batches: the function that ``mapInArrow`` runs."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from udfs.arrow import rebatch
from udfs.occlusion._settings import TargetError
from udfs.occlusion._task_model import task_model

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

    from udfs.inference import ImageFeed, ModelSource, RowPolicy
    from udfs.occlusion._settings import Occlusion

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
    ]
)
"""What is said of a heat map beside its values."""

# Images read at a time: each takes its patch through the network a thousand times.
_IMAGES = 8


@dataclass(frozen=True, slots=True)
class Explaining:
    """One pass over a DataFrame: images in, heat maps out. Call it with ``mapInArrow``.

    Parameters
    ----------
    source : ModelSource
        Of torch.
    feed : ImageFeed
        Fills the network's one input.
    target : str or None
        Column of the class that a heat map is of; without it, or where it is null, the predicted one.
    occlusion : Occlusion
    output, details : str
        Columns to add: the heat map, row by row, and a struct of :data:`DETAILS`.
    keep : tuple of str
        Columns that pass through.
    policy : RowPolicy
    device : str
    estimated_ssim : float or None
        What the tuning says of such heat maps.
    tuning : bool
        Instead of heat maps, `output` has the SSIM at each tau, of all places and then after drill-down.
    """

    source: ModelSource
    feed: ImageFeed
    target: str | None
    occlusion: Occlusion
    output: str
    details: str
    keep: tuple[str, ...]
    policy: RowPolicy
    device: str
    estimated_ssim: float | None = None
    tuning: bool = False

    @property
    def reads(self) -> tuple[str, ...]:
        """Columns that it reads."""
        return (*self.feed.columns, *([self.target] if self.target else []))

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Run over the batches of one partition; an empty partition opens no model."""
        done, occluder = 0, None
        for batch in rebatch(batches, _IMAGES):
            if occluder is None:
                occluder = self._opened()
            yield self._run(batch, done, occluder)
            done += batch.num_rows

    def _opened(self) -> Any:
        from udfs.occlusion.occluder import Occluder  # noqa: PLC0415 - imports torch, an optional extra
        from udfs.occlusion.tuning import Tuning  # noqa: PLC0415 - the same

        model = task_model(self.source, self.device)
        return Tuning(model, self.occlusion) if self.tuning else Occluder(model, self.occlusion)

    def _run(self, batch: pa.RecordBatch, done: int, occluder: Any) -> pa.RecordBatch:
        read = self.feed.take(batch)
        (pixels,) = read.arrays.values()
        targets = batch.column(self.target).to_pylist() if self.target else [None] * batch.num_rows
        reasons, images = list(read.reasons), iter(pixels)
        maps: list[list[float] | None] = []
        details: list[dict[str, Any] | None] = []
        for place, target in enumerate(targets):
            found = None
            if reasons[place] is None:
                image = next(images)
                try:
                    found = self._explained(occluder, image, target)
                except TargetError as error:
                    reasons[place] = str(error)
            maps.append(found and found[0])
            details.append(found and found[1])
        valid = self.policy.valid(reasons, done, ", ".join(self.reads))
        columns = {name: batch.column(name) for name in self.keep}
        columns[self.output] = pa.array(maps, pa.list_(pa.float32()))
        if not self.tuning:
            columns[self.details] = pa.array(details, DETAILS)
        return self.policy.emit(columns, reasons, valid)

    def _explained(self, occluder: Any, image: NDArray[Any], target: int | None) -> tuple[list[float], dict[str, Any]]:
        started = time.perf_counter()
        if self.tuning:
            return [one for part in occluder.measure(image, target) for one in part], {}
        found = occluder.heat_map(occluder.opened(image), target)
        rows, columns = found.values.shape
        return found.values.ravel().tolist(), {
            "target": found.target,
            "predicted": found.predicted,
            "probability": found.probability,
            "rows": rows,
            "columns": columns,
            "estimated_ssim": self.estimated_ssim,
            "seconds": time.perf_counter() - started,
        }
