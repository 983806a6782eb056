"""Spark job that computes missing outputs of frozen layers in one pass over the rows."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, field
from functools import reduce
from typing import TYPE_CHECKING, Any

from cerebro_spark.adaptation._jobs import collect_rows
from cerebro_spark.errors import FeatureSpaceError
from udfs.adaptation import (
    MaterialisingTask,
    Segment,
    SegmentOrder,
    SegmentReport,
    StorageError,
    segments_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from cerebro_spark.hopper import SparkBackend
    from udfs.adaptation import Augmenter, FeatureStore, ModelOpener
    from udfs.shards import GrowingData

__all__ = ["Materialised", "materialise"]

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Materialised:
    """Result of a job that stores layers.

    ``trunk_rows`` passed the trunk from the networks' inputs; the others were computed from stored layers, or were in a
    scored pool. A copy of an augmented record is a row. ``storage_error`` is the largest of all files, ``remade``
    counts damaged files. ``seconds`` are 0 if nothing was missing; ``busy_seconds`` leave out opening models, and
    ``flops`` are those of the frozen layers that ran.
    """

    rows: int = 0
    bytes: int = 0
    seconds: float = 0.0
    trunk_rows: int = 0
    storage_error: StorageError = field(default_factory=StorageError)
    remade: int = 0
    busy_seconds: float = 0.0
    flops: int = 0


def materialise(  # noqa: PLR0913 - options by name
    backend: SparkBackend,
    data: GrowingData,
    features: FeatureStore,
    wants: Mapping[str, Mapping[str, Any]],
    opener: ModelOpener,
    *,
    batch_size: int,
    disk_bytes: int | None = None,
    augmenter: Augmenter | None = None,
    progress: Callable[[str], None] | None = None,
) -> Materialised:
    """Store the outputs of frozen layers for all rows that lack them.

    Rows of one batch and shard are computed by one task, all their layers in one pass. A layer that comes later is
    filled in from the nearest one that is stored. ``wants`` maps the expression of a layer to the params of a
    configuration that has it. Other stored layers stay; :meth:`FeatureStore.retain` deletes them. ``opener`` is
    picklable and opens a configuration in a worker. ``disk_bytes`` limits all stored outputs of the campaign, by
    default to the size of the disk. ``augmenter`` makes the copies to store in place of training records. Raise
    FeatureSpaceError if the layers exceed the disk (nothing is written, or all files are complete),
    InvalidArgumentError if a configuration lacks its layer in the worker, as with random weights without a seed, and
    AugmentationError, ShardError, StoreError, BusyError or TooFewSlotsError.
    """
    segments = segments_of(data) if augmenter is None else augmenter.segments(data)
    missing: dict[Segment, list[str]] = {}
    for want in wants:
        for segment in features.missing(want, segments):
            missing.setdefault(segment, []).append(want)
    if not missing:
        return Materialised()
    backend.admit()
    (progress or _LOG.info)(f"computing {len(wants)} layers for {sum(segment.rows for segment in missing):,} rows")
    before = features.used_bytes()
    orders = _dealt([SegmentOrder(segment, tuple(keys)) for segment, keys in missing.items()], backend.num_workers)
    needed = dict.fromkeys(want for keys in missing.values() for want in keys)
    task = MaterialisingTask(
        features,
        data,
        orders,
        {want: dict(wants[want]) for want in needed},
        opener,
        batch_size,
        backend.threads_per_worker,
        disk_bytes,
        before,
        augmenter,
    )
    began = time.monotonic()
    tasks = len(orders)
    job = backend.spark.range(0, tasks, 1, tasks).mapInArrow(task, SegmentReport.schema)
    reports = [SegmentReport.from_row(row.asDict()) for row in collect_rows(job)]
    seconds = time.monotonic() - began
    full = next((report.full for report in reports if report.full), None)
    if full is not None:
        raise FeatureSpaceError(full)
    done = [(orders[report.task][report.place].segment, report) for report in reports]
    errors = [error for _, report in done for error in report.errors.values()]
    return Materialised(
        rows=sum(segment.rows for segment, _ in done),
        bytes=features.used_bytes() - before,
        seconds=seconds,
        trunk_rows=sum(report.passed for report in reports),
        storage_error=reduce(StorageError.joined, errors, StorageError()),
        remade=sum(report.damaged for _, report in done),
        busy_seconds=sum(report.seconds for _, report in done),
        flops=sum(report.flops for _, report in done),
    )


def _dealt(orders: Sequence[SegmentOrder], workers: int) -> tuple[tuple[SegmentOrder, ...], ...]:
    """Distribute the orders over the workers, the largest first and each to the least loaded worker."""
    dealt: list[list[SegmentOrder]] = [[] for _ in range(min(workers, len(orders)))]
    rows = [0] * len(dealt)
    for order in sorted(orders, key=lambda order: -order.segment.rows):
        place = rows.index(min(rows))
        dealt[place].append(order)
        rows[place] += order.segment.rows
    return tuple(map(tuple, dealt))
