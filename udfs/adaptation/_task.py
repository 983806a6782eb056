"""Spark task that stores outputs of frozen layers."""

from __future__ import annotations

import json
import time
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from optimizer.sizes import size
from udfs.adaptation._bfloat16 import StorageError
from udfs.adaptation._computing import compute
from udfs.adaptation._errors import FeatureSpaceError
from udfs.adaptation._trunk import frozen_layers
from udfs.arrow import report_batch
from udfs.handlers import register_framework, registered_frameworks
from udfs.node import keep_freed_memory, limit_threads
from udfs.store import StoreFullError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    import pyarrow as pa

    from udfs.adaptation._augmentation import Augmenter
    from udfs.adaptation._features import FeatureStore
    from udfs.adaptation._segment import Segment
    from udfs.adaptation._trunk import TrunkModel
    from udfs.handlers import Framework
    from udfs.shards import GrowingData

__all__ = ["MaterialisingTask", "ModelOpener", "SegmentOrder", "SegmentReport"]


class ModelOpener(Protocol):
    """Function that opens a configuration in a worker, as a partial of :func:`udfs.handlers.open_adapted` does."""

    def __call__(self, params: Mapping[str, Any], /) -> TrunkModel:
        """Open the configuration of some params."""


@dataclass(frozen=True, slots=True)
class SegmentOrder:
    """Layers to store for the rows of a segment, by their expressions."""

    segment: Segment
    wants: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SegmentReport:
    """Report of a task about a segment.

    ``task`` and ``place`` are the numbers of the task and of its order; ``passed`` counts rows that passed the trunk
    from its inputs, ``damaged`` the damaged files that were computed again, ``flops`` the frozen layers that ran.
    ``full`` is the reason why storing stopped, ``""`` for success.
    """

    task: int
    place: int
    passed: int = 0
    damaged: int = 0
    seconds: float = 0.0
    flops: int = 0
    errors: dict[str, StorageError] = field(default_factory=dict)
    full: str = ""

    schema: ClassVar[str] = (
        "task int, place int, passed bigint, damaged int, seconds double, flops bigint, errors string, full string"
    )

    def to_batch(self) -> pa.RecordBatch:
        """Return the report as a row for Spark."""
        errors = json.dumps({key: asdict(error) for key, error in self.errors.items()})
        return report_batch(self, errors=errors)

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> SegmentReport:
        """Read a row of :meth:`to_batch`."""
        errors = {key: StorageError(**error) for key, error in json.loads(row["errors"]).items()}
        return cls(**{**row, "errors": errors})


@dataclass(frozen=True, slots=True)
class MaterialisingTask:
    """Task that stores outputs of frozen layers, for ``mapInArrow`` on the numbers of the tasks.

    A task that runs again keeps the completed files of the first attempt. ``candidates`` has, by expression, params of
    a configuration that has the layer. ``disk_bytes`` limits all stored outputs of the campaign, by default to the size
    of the disk; ``used_bytes`` are those at the start of the job.
    """

    features: FeatureStore
    data: GrowingData
    orders: tuple[tuple[SegmentOrder, ...], ...]
    candidates: Mapping[str, Mapping[str, Any]]
    opener: ModelOpener
    batch_size: int
    threads: int = 1
    disk_bytes: int | None = None
    used_bytes: int = 0
    augmenter: Augmenter | None = None
    registered: tuple[Framework, ...] = field(default_factory=registered_frameworks)

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Carry out the orders of the tasks, and yield a :class:`SegmentReport` for each."""
        numbers = [number for batch in batches for number in batch.column(0).to_pylist()]
        keep_freed_memory()
        register_framework(*self.registered)
        limit_threads(self.threads)
        for number in numbers:
            for report in self._run(number):
                yield report.to_batch()

    def _run(self, task: int) -> Iterator[SegmentReport]:
        models = self._models()
        try:
            self._check_space(models)
        except FeatureSpaceError as error:
            yield SegmentReport(task, 0, full=str(error))
            return
        for place, order in enumerate(self.orders[task]):
            began = time.monotonic()
            try:
                done = compute(
                    self.features,
                    self.data,
                    order.segment,
                    order.wants,
                    models,
                    batch_size=self.batch_size,
                    augmenter=self.augmenter,
                )
            except StoreFullError as error:
                yield SegmentReport(task, place, full=str(error))
                return
            seconds = time.monotonic() - began
            yield SegmentReport(task, place, done.passed, len(done.damaged), seconds, done.flops, done.errors)

    def _models(self) -> list[TrunkModel]:
        """Open each configuration once."""
        opened: dict[str, TrunkModel] = {}
        for params in self.candidates.values():
            key = json.dumps(params, sort_keys=True, default=repr)
            if key not in opened:
                opened[key] = self.opener(params)
        return list(opened.values())

    def _check_space(self, models: Iterable[TrunkModel]) -> None:
        """Check in every task that the outputs of all tasks fit, before writing."""
        if self.disk_bytes is None:
            return
        rows: dict[str, int] = {}
        for orders in self.orders:
            for order in orders:
                for want in order.wants:
                    rows[want] = rows.get(want, 0) + order.segment.rows
        row_bytes: dict[str, int] = {}
        for model in models:
            for key, name in frozen_layers(model).items():
                layer = model.graph[name]
                row_bytes[key] = self.features.row_bytes(layer.output_shape, layer.dtype)
        needed = self.used_bytes + sum(count * row_bytes.get(want, 0) for want, count in rows.items())
        if needed > self.disk_bytes:
            raise FeatureSpaceError(
                f"disk_bytes must be at least {size(needed)} for the layers to store, got {size(self.disk_bytes)}: "
                "plan with "
                "fewer layers, store them as bfloat16, or raise disk_bytes"
            )
