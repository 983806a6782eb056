"""Measurement of the rates of the workers for the planner."""

from __future__ import annotations

import json
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING, Any

from cerebro_spark.adaptation._jobs import collect_rows
from cerebro_spark.errors import InvalidArgumentError
from optimizer.adaptation import Costs
from udfs.adaptation import LayerTime, MeasuringTask, ReaderSpeed, TrunkSpeed

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from cerebro_spark.hopper import SparkBackend
    from udfs.adaptation import FeatureStore, ModelOpener
    from udfs.shards import GrowingData

__all__ = ["Measured", "measure"]


@dataclass(frozen=True, slots=True)
class Measured:
    """Mean rates of the workers while all of them are busy."""

    reader: ReaderSpeed
    trunk: TrunkSpeed

    def costs(self, *, cold: bool = False) -> Costs:
        """Return the costs for the planner.

        With ``cold``, every epoch reads stored layers from the disk, since they exceed the memory; otherwise they are
        in memory from the second epoch on.
        """
        return Costs(
            flops_per_second=self.trunk.flops_per_second,
            bytes_per_second=self.reader.cold if cold else self.reader.warm,
        )


def measure(  # noqa: PLR0913 - options by name
    backend: SparkBackend,
    data: GrowingData,
    features: FeatureStore,
    params: Mapping[str, Any],
    opener: ModelOpener,
    stops: Sequence[str],
    *,
    batch_size: int,
    seconds: float = 1.0,
    nbytes: int = 1 << 24,
) -> Measured:
    """Run a part of a configuration's trunk and read stored outputs in all workers at the same time.

    The first rows of the data are the batch. ``stops`` are expressions of frozen layers in topological order; times are
    measured from each to the next, for ``seconds`` each. Each worker writes and reads ``nbytes``.

    Raises
    ------
    InvalidArgumentError
        There is no stop.
    StoreError
        Writing to the store fails.
    BusyError, TooFewSlotsError
        The cluster has no task slots for the job.
    """
    if not stops:
        raise InvalidArgumentError("stops must have expressions of layers that a plan may store, got none")
    backend.admit()
    task = MeasuringTask(
        features,
        data,
        dict(params),
        opener,
        tuple(stops),
        batch_size,
        backend.threads_per_worker,
        seconds,
        nbytes,
    )
    workers = backend.num_workers
    job = backend.spark.range(0, workers, 1, workers).mapInArrow(task, task.schema)
    rows = collect_rows(job)
    times = [[LayerTime(**entry) for entry in json.loads(row["segments"])] for row in rows]
    segments = tuple(
        LayerTime(parts[0].expression, parts[0].flops, fmean(part.seconds for part in parts))
        for parts in zip(*times, strict=True)
    )
    reader = ReaderSpeed(fmean(row["cold"] for row in rows), fmean(row["warm"] for row in rows))
    return Measured(reader, TrunkSpeed(segments))
