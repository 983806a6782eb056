"""One feature transfer, as the figures time it, on a Spark session of its own process."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from pyspark.ml.classification import LogisticRegression
from pyspark.ml.evaluation import MulticlassClassificationEvaluator
from pyspark.ml.functions import array_to_vector

from benchmarks.transfer._downstream import NoModel, NoScore
from optimizer.memory import InfeasiblePlanError
from vista_spark import CNNFeaturizer, FeatureTransfer, session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from vista_spark import TransferResult

__all__ = ["Job", "Outcome", "Setup", "Warmup", "Workbench"]

# Of a transfer that only wakes: enough for both classes on both sides of the split.
_FEW = 32

# Seconds for which Python workers stay for sure; Spark ends them after a minute.
_AWAKE = 20.0


@dataclass(frozen=True, slots=True)
class Setup:
    """Settings of all transfers of a run.

    Parameters
    ----------
    images : str
        Parquet file with columns id, from 0, and image.
    model : str
    weights : str or None
    image_size : int or None
    batch_size : int
    """

    images: str
    model: str
    weights: str | None
    image_size: int | None
    batch_size: int


@dataclass(frozen=True, slots=True)
class Job:
    """One transfer; the planner decides settings that are ``None``.

    Parameters
    ----------
    images : int
        The first so many.
    layers : tuple of str
    plan : str
    features : int
        Structured ones, random with a hint of the label.
    join, persistence, partitions
        As for :class:`vista_spark.FeatureTransfer`.
    train : bool
        A logistic regression of two iterations on every layer; nothing otherwise.
    """

    images: int
    layers: tuple[str, ...]
    plan: str = "auto"
    features: int = 10
    join: str | None = None
    persistence: str | None = None
    partitions: int | None = None
    train: bool = False

    def run(self, bench: Workbench) -> Outcome:
        """Run the transfer on running workers."""
        try:
            bench.wake(self)
            started = time.perf_counter()
            result = bench.transfer(self)
            seconds = time.perf_counter() - started
        except InfeasiblePlanError as error:
            return Outcome(refused=str(error))
        physical = result.choice.physical
        return Outcome(
            inference_seconds=sum(row.inference_seconds for row in result.layers),
            total_seconds=seconds,
            logical=str(result.plan.logical),
            passes=len(result.plan.stages),
            speedup=result.plan.speedup,
            join=physical.join,
            persistence=physical.persistence,
            partitions=physical.partitions,
            scores=tuple(row.score for row in result.rows),
        )


@dataclass(frozen=True, slots=True)
class Warmup:
    """Prepare a figure, before any of its jobs is timed."""

    job: Job

    def run(self, bench: Workbench) -> None:
        """Run the warm-up."""
        bench.warm(self.job)


@dataclass(frozen=True, slots=True)
class Outcome:
    """Seconds of a transfer, and the plan that was chosen for it.

    Attributes
    ----------
    refused : str
        Why the planner let nothing run; empty where it did.
    inference_seconds : float
        Of all passes over the images, joins included.
    total_seconds : float
        With the check of the tables and planning, and with training and scoring if there was any.
    logical : str
    passes : int
    speedup : float
        Against the lazy plan, by FLOPs.
    join, persistence, partitions
    scores : tuple of float
        Of the structured features alone, then of the layers from the bottom to the top.
    """

    refused: str = ""
    inference_seconds: float = float("inf")
    total_seconds: float = float("inf")
    logical: str = ""
    passes: int = 0
    speedup: float = 1.0
    join: str = ""
    persistence: str = ""
    partitions: int = 0
    scores: tuple[float, ...] = ()


@dataclass
class Workbench:
    """A session, and the tables that its transfers read: cached, so that no disk is timed.

    Parameters
    ----------
    cores : int
    setup : Setup
    """

    cores: int
    setup: Setup
    _tables: dict[tuple[int, int], tuple[DataFrame, DataFrame]] = field(default_factory=dict)
    _warm: set[str] = field(default_factory=set)
    _ended: float = float("-inf")

    def __post_init__(self) -> None:
        conf = {"spark.ui.enabled": "false", "spark.log.level": "ERROR"}
        self.spark: SparkSession = session(f"local[{self.cores}]", conf=conf)

    def transfer(self, job: Job) -> TransferResult:
        """Run a transfer on the cached tables."""
        setup = self.setup
        result = FeatureTransfer(
            model=setup.model,
            weights=setup.weights,
            layers=job.layers,
            downstream=LogisticRegression(maxIter=2) if job.train else NoModel(),
            evaluator=MulticlassClassificationEvaluator(metricName="f1") if job.train else NoScore(),
            plan=job.plan,
            join=job.join,
            persistence=job.persistence,
            partitions=job.partitions,
            test_fraction=0.3,
            image_size=setup.image_size,
            batch_size=setup.batch_size,
            device="cpu",
            experiment=None,
            progress=False,
        ).run(*self.tables(job.images, job.features))
        self._ended = time.monotonic()
        return result

    def warm(self, job: Job) -> None:
        """Warm up the JVM by a plan on few images."""
        if job.plan not in self._warm:
            self.transfer(replace(job, images=min(job.images, _FEW), partitions=self.cores, train=False))
            self._warm.add(job.plan)

    def wake(self, job: Job) -> None:
        """Start the workers that Spark ended for idleness, with the model in them."""
        self.tables(job.images, job.features)
        if time.monotonic() - self._ended < _AWAKE:
            return
        few = min(job.images, _FEW)
        featurizer = CNNFeaturizer(
            model=self.setup.model,
            weights=self.setup.weights,
            layers=list(job.layers),
            imageSize=self.setup.image_size,
            batchSize=self.setup.batch_size,
            device="cpu",
        )
        featurizer.transform(self.tables(few, job.features)[1]).write.format("noop").mode("overwrite").save()

    def tables(self, images: int, features: int) -> tuple[DataFrame, DataFrame]:
        """The structured rows and the images, in memory."""
        if (images, features) not in self._tables:
            pictures = self.spark.read.parquet(self.setup.images).where(f"id < {images}")
            pair = self._structured(images, features), pictures.repartition(self.cores)
            for table in pair:
                table.persist().count()
            self._tables[images, features] = pair
        return self._tables[images, features]

    def _structured(self, rows: int, features: int) -> DataFrame:
        label = np.arange(rows) % 2
        numbers = np.random.default_rng(0).normal(size=(rows, features)) + label[:, None] / 4
        lists = pa.ListArray.from_arrays(np.arange(rows + 1, dtype=np.int32) * features, numbers.ravel())
        columns = {"id": pa.array(np.arange(rows)), "label": pa.array(label.astype(np.float64)), "features": lists}
        df = self.spark.createDataFrame(pa.table(columns))
        return df.withColumn("features", array_to_vector("features")).repartition(self.cores)
