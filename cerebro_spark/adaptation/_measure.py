"""Measure the cluster for the planner: what all workers compute and read a second, beside each other."""

from __future__ import annotations

import json
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING, Any

from cerebro_spark.adaptation._collecting import collected
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
    """Rates of a worker while the others are at work too, the mean of all.

    Parameters
    ----------
    reader : ReaderSpeed
    trunk : TrunkSpeed
    """

    reader: ReaderSpeed
    trunk: TrunkSpeed

    def costs(self, *, cold: bool = False) -> Costs:
        """Return what the planner takes.

        Parameters
        ----------
        cold : bool
            Whether stored layers are read from the disk in every epoch, for they are more than the machine's memory.
            Default false: from the second epoch on they are in memory.
        """
        return Costs(
            flops_per_second=self.trunk.flops_per_second,
            bytes_per_second=self.reader.cold if cold else self.reader.warm,
        )


def measure(
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
    """Run a part of a configuration's trunk, and read stored outputs, in all workers at once: one small job.

    Parameters
    ----------
    backend : SparkBackend
    data : GrowingData
        Whose first rows are the batch.
    features : FeatureStore
    params : mapping
    opener : ModelOpener
        Opens the configuration in a worker; it is pickled.
    stops : sequence of str
        Expressions of frozen layers, in topological order: times are told from one to the next. At least the last one.
    batch_size : int
        That of the plan.
    seconds : float
        For each stop. Default 1.
    nbytes : int
        To write and to read in each worker. Default 16 MiB.

    Returns
    -------
    Measured

    Raises
    ------
    InvalidArgumentError
        No stop.
    StoreError
        The store cannot be written.
    BusyError, TooFewSlotsError
        The cluster has no task slots for it.
    """
    if not stops:
        raise InvalidArgumentError("stops names no layer: give the expressions of layers that a plan may store")
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
    rows = collected(job)
    times = [[LayerTime(**one) for one in json.loads(row["segments"])] for row in rows]
    segments = tuple(
        LayerTime(parts[0].expression, parts[0].flops, fmean(part.seconds for part in parts))
        for parts in zip(*times, strict=True)
    )
    reader = ReaderSpeed(fmean(row["cold"] for row in rows), fmean(row["warm"] for row in rows))
    return Measured(reader, TrunkSpeed(segments))
