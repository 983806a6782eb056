"""Runs a logical plan: inference to each layer, a downstream model on each, tables dropped as soon as they may be."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from pyspark.ml.feature import VectorAssembler
from pyspark.sql import functions as F  # noqa: N812 - the name that Spark's users know

from udfs.descriptors import HOGExtraction
from udfs.handlers import TensorSpec
from udfs.hog import hog_length
from udfs.images import ImageError
from udfs.inference import Feature, ImageFeed, Inference, Materialised, TensorFeed
from udfs.pooling import Pooling, feature_length
from udfs.rows import RowPolicy
from vista_spark._spark import as_vector, describe, infer, quoted
from vista_spark.errors import EmptyInputError, LabelError
from vista_spark.transfer._downstream import is_classification, point_at
from vista_spark.transfer._result import LayerResult

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.ml import Estimator
    from pyspark.ml.evaluation import Evaluator
    from pyspark.sql import Column, DataFrame, SparkSession

    from optimizer.logical import InferenceStage, LogicalPlan
    from vista_spark._network import Network
    from vista_spark.transfer._inputs import Columns, Joined

__all__ = ["FEATURES", "Run", "parallelism"]

FEATURES = "transfer_features"
"""The column in which the downstream model finds its features."""

_STRUCTURED = "transfer_structured"
_IMAGE = "transfer_image"
_ERROR = "image_error"

# Vista's p_max (Table 1): what one partition of an intermediate table may hold.
_PARTITION_BYTES = 100_000_000

# Side of the picture that HOG sees, in pixels: 64 x 64 gives 1764 numbers, of the order of a CNN layer.
_HOG_SIZE = 64


def parallelism(spark: SparkSession) -> int:
    """Task slots of the cluster as Spark counts them, on classic Spark and on Connect alike (runs one tiny job)."""
    rows = spark.range(10_000).select(F.spark_partition_id().alias("partition"))
    return int(rows.agg(F.countDistinct("partition")).collect()[0][0])


@dataclass(slots=True)
class Run:
    """One execution of a plan.

    Parameters
    ----------
    network : Network
    plan : LogicalPlan
    columns : Columns
    downstream, evaluator
        Pointed at :data:`FEATURES` and the label by the run itself.
    pooling, batch_size, device, errors
        As for :class:`vista_spark.FeatureTransfer`.
    test_fraction : float
    seed : int
        Of the split.
    hog : bool
    tick : callable
        Called with what begins next.
    """

    network: Network
    plan: LogicalPlan
    columns: Columns
    downstream: Estimator[Any]
    evaluator: Evaluator
    pooling: Pooling
    batch_size: int
    device: str
    errors: str
    test_fraction: float
    seed: int
    hog: bool
    tick: Callable[[str], None]
    dropped: dict[str, int] = field(default_factory=dict)
    train_rows: int = 0
    test_rows: int = 0

    def execute(self, joined: Joined) -> tuple[LayerResult, LayerResult | None, tuple[LayerResult, ...]]:
        """Train on every layer; the structured features alone come first, on the same rows.

        Returns
        -------
        LayerResult
            Of the structured features alone.
        LayerResult or None
            Of the HOG features.
        tuple of LayerResult
            Of the layers, from the bottom to the top.

        Raises
        ------
        udfs.images.ImageError
            An image is bad, and ``errors="raise"``.
        EmptyInputError, LabelError
            What is left is too little to train and test on.
        """
        self.dropped.update(joined.dropped)
        source = joined.df.repartition(self._partitions(joined.rows, parallelism(joined.df.sparkSession)))
        held = [source.persist()] if self.hog or self.plan.logical == "lazy" else []
        layers: list[LayerResult] = []
        baseline: LayerResult | None = None
        hog: LayerResult | None = None
        try:
            table = source
            for number, stage in enumerate(self.plan.stages):
                continued = number > 0 and bool(self.plan.stages[number - 1].writes)
                self.tick(f"inference: {', '.join(self.plan.names[target] for target in stage.targets)}")
                before, table = table, self._infer(table if continued else source, stage, continued=continued).persist()
                held.append(table)
                started = time.perf_counter()
                self._count(table, complain=number == 0)
                seconds = time.perf_counter() - started
                if before is not source:
                    before.unpersist()
                if baseline is None:
                    self.tick("training: structured features")
                    baseline = self._train(table, "structured")
                    hog = self._hog(source) if self.hog else None
                for target in stage.targets:
                    self.tick(f"training: {self.plan.names[target]}")
                    size = feature_length(self.network.graph[target].output_shape, self.pooling)
                    trained = self._train(table, self.plan.names[target], _feature(target), size)
                    layers.append(replace(trained, inference_seconds=seconds, gflops=stage.flops / 1e9))
                    seconds = 0.0  # the layers of an eager stage share one pass
        finally:
            for table in held:
                table.unpersist()
        assert baseline is not None  # noqa: S101 - a plan has at least one stage
        return baseline, hog, tuple(layers)

    def _partitions(self, rows: int, slots: int) -> int:
        """A multiple of the slots, each partition below 100 MB (Vista, equations 13 and 14)."""
        graph = self.network.graph
        widest = max(
            stage.write_bytes + sum(graph[target].activation_bytes for target in stage.targets)
            for stage in self.plan.stages
        )
        return slots * max(1, math.ceil(rows * widest / (_PARTITION_BYTES * slots)))

    def _infer(self, table: DataFrame, stage: InferenceStage, *, continued: bool) -> DataFrame:
        graph = self.network.graph
        feeds: tuple[ImageFeed | TensorFeed, ...] = (
            ImageFeed(self.columns.image, self.network.image, self.network.preprocessing),
        )
        if continued:
            table = table.where(F.col(_ERROR).isNull()).drop(_ERROR)
            feeds = tuple(
                TensorFeed(_live(name), name, TensorSpec(graph[name].output_shape, graph[name].dtype))
                for name in stage.reads
            )
        return infer(
            table,
            Inference(
                source=self.network.source,
                feeds=feeds,
                features=tuple(Feature(name, _feature(name), self.pooling) for name in stage.targets),
                materialised=tuple(Materialised(name, _live(name)) for name in stage.writes),
                keep=self._kept,
                policy=RowPolicy("null", _ERROR),
                batch_size=self.batch_size,
                device=self.device,
            ),
        )

    @property
    def _kept(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((self.columns.on, self.columns.label, *self.columns.structured)))

    def _count(self, table: DataFrame, *, complain: bool) -> None:
        """Compute a table, and the first time see what there is to train and test on."""
        reason = F.substring_index(_ERROR, ":", 1).alias("reason")
        found = table.groupBy(reason, self._is_test.alias("test")).agg(
            F.count("*").alias("rows"),
            F.countDistinct(F.col(quoted(self.columns.label))).alias("classes"),
            F.min(F.col(quoted(self.columns.on))).alias("example"),
        )
        groups = found.collect()
        if not complain:
            return
        for group in groups:
            if group["reason"] is None:
                continue
            if self.errors == "raise":
                raise ImageError(
                    group["reason"], f'{self.columns.on} {group["example"]!r} and others; errors="drop" leaves them out'
                )
            key = f"image: {group['reason']}"
            self.dropped[key] = self.dropped.get(key, 0) + group["rows"]
        good = {group["test"]: group for group in groups if group["reason"] is None}
        self.train_rows, self.test_rows = (good[side]["rows"] if side in good else 0 for side in (False, True))
        if not self.train_rows or not self.test_rows:
            raise EmptyInputError(
                f"{self.train_rows} rows to train on and {self.test_rows} held out, of good images "
                f"({sum(self.dropped.values())} rows left out: {self.dropped}): give more rows or another test_fraction"
            )
        if is_classification(self.downstream) and good[False]["classes"] == 1:
            raise LabelError(f"the {self.train_rows} rows to train on are of one class: a classifier needs two")

    @property
    def _is_test(self) -> Column:
        """Whether a row is held out: by a hash of its id, so that every plan and every layer splits alike."""
        share = F.pmod(F.xxhash64(F.col(quoted(self.columns.on)).cast("string"), F.lit(self.seed)), F.lit(1_000_000))
        return share < F.lit(int(self.test_fraction * 1_000_000))

    def _train(self, table: DataFrame, name: str, image: str | None = None, size: int = 0) -> LayerResult:
        started = time.perf_counter()
        data = self.columns.assembler(_STRUCTURED).transform(table.where(F.col(_ERROR).isNull()))
        inputs = [_STRUCTURED]
        if image is not None:
            data = data.withColumn(_IMAGE, as_vector(image, size))
            inputs.append(_IMAGE)
        data = VectorAssembler(inputCols=inputs, outputCol=FEATURES).transform(data)
        kept = (F.col(quoted(name)) for name in (self.columns.on, self.columns.label, FEATURES))
        data = data.select(*kept, self._is_test.alias("transfer_test"))
        model = point_at(self.downstream, FEATURES, self.columns.label).fit(data.where(~F.col("transfer_test")))
        scored = model.transform(data.where("transfer_test"))
        score = point_at(self.evaluator, FEATURES, self.columns.label).evaluate(scored)
        return LayerResult(name, size, score, 0.0, time.perf_counter() - started, 0.0, model)

    def _hog(self, source: DataFrame) -> LayerResult:
        self.tick("baseline: HOG")
        extraction = HOGExtraction(
            self.columns.image, _feature("hog"), _HOG_SIZE, self._kept, RowPolicy("null", _ERROR), self.batch_size
        )
        table = describe(source, extraction).persist()
        try:
            started = time.perf_counter()
            self._count(table, complain=False)
            seconds = time.perf_counter() - started
            trained = self._train(table, "hog", _feature("hog"), hog_length(_HOG_SIZE))
        finally:
            table.unpersist()
        return replace(trained, inference_seconds=seconds)


def _feature(layer: str) -> str:
    return f"transfer_feature_{layer}".replace(".", "_")


def _live(layer: str) -> str:
    return f"transfer_live_{layer}".replace(".", "_")
