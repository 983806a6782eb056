"""Measurement of the rates at which workers run frozen layers and read their stored outputs.

The planner compares both: it stores the outputs of a frozen layer if reading them is faster than running the trunk,
which is the frozen layers of a model up to those that train. The expression of a layer is a hash of it and all layers
below it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING, Any

from cerebro_spark.adaptation._jobs import collect_rows
from cerebro_spark.errors import InvalidArgumentError
from optimizer.adaptation import Costs
from udfs.adaptation import LayerTime, MeasuringTask, ReaderSpeed, TrunkSpeed
from udfs.store import StoreFullError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from cerebro_spark.hopper import SparkBackend
    from udfs.adaptation import FeatureStore, ModelOpener
    from udfs.shards import GrowingData

__all__ = ["WorkerRates", "measure_workers"]


@dataclass(frozen=True, slots=True)
class WorkerRates:
    """Mean rates of the workers, measured while all of them are busy: of reading, and of running the trunk."""

    reader: ReaderSpeed
    trunk: TrunkSpeed

    def costs(self, *, cold: bool = False) -> Costs:
        """Return the costs for the planner.

        Set ``cold`` if the stored outputs exceed the memory: every epoch then reads them from disk. By default they are
        in memory from the second epoch on.
        """
        return Costs(
            flops_per_second=self.trunk.flops_per_second,
            bytes_per_second=self.reader.cold if cold else self.reader.warm,
        )


def measure_workers(  # noqa: PLR0913 - options by name
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
) -> WorkerRates:
    """Measure in all workers at the same time, in one Spark job: run a model's trunk, then write and read outputs.

    Parameters
    ----------
    backend : SparkBackend
        Workers.
    data : GrowingData
        Records, of which the first `batch_size` for training are the input of the trunk.
    features : FeatureStore
        Store of the outputs. Each worker writes synthetic ones, reads them and deletes them.
    params : mapping of str to object
        Configuration whose model is opened.
    opener : ModelOpener
        Function that opens the model of a configuration in a worker.
    stops : sequence of str
        Expressions of frozen layers that a plan may store, in topological order. The layers from one stop to the next
        are timed together.
    batch_size : int
        Records of a batch, for running and for reading.
    seconds : float
        Least duration of the measurement of each part of the trunk. Default 1.
    nbytes : int
        Bytes that each worker writes and reads. Default 16 MiB.

    Returns
    -------
    WorkerRates
        Means over the workers.

    Raises
    ------
    InvalidArgumentError
        `stops` is empty.
    StoreError
        Writing to the store fails; a StoreFullError if its disk is full.
    BusyError, TooFewSlotsError
        The cluster does not have enough task slots for the workers.
    """
    if not stops:
        raise InvalidArgumentError(
            "stops must have at least one expression of a layer that a plan may store, got none."
        )
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
    full = next((row["full"] for row in rows if row["full"]), "")
    if full:
        raise StoreFullError(full)
    worker_times = [[LayerTime(**entry) for entry in json.loads(row["segments"])] for row in rows]
    segments = tuple(
        LayerTime(times[0].expression, times[0].flops, fmean(time.seconds for time in times))
        for times in zip(*worker_times, strict=True)
    )
    reader = ReaderSpeed(fmean(row["cold"] for row in rows), fmean(row["warm"] for row in rows))
    return WorkerRates(reader, TrunkSpeed(segments))
