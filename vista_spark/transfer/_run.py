"""Execution of a logical plan: inference to each layer, a downstream model on each, and the tables cached between."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pyspark import StorageLevel
from pyspark.ml.feature import VectorAssembler
from pyspark.ml.functions import array_to_vector
from pyspark.sql import functions as F

from udfs.arrow import RowMap, RowPolicy
from udfs.driver import as_vector, cause, map_rows, quoted
from udfs.images import MAX_PIXELS, hog_length
from udfs.inference import HOGExtraction
from vista_spark.errors import DiskFullError, EmptyInputError, InvalidArgumentError, LabelError
from vista_spark.transfer._downstream import is_classification, point_at
from vista_spark.transfer._intervals import MOST_ROWS, metric_of, resampled
from vista_spark.transfer._predictor import FEATURES
from vista_spark.transfer._result import InferencePass, LayerResult
from vista_spark.transfer._shares import flops_by_target
from vista_spark.transfer._stage import ERROR, feature_column, run_stage, stage_inference

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import pandas as pd
    from pyspark.ml import Estimator
    from pyspark.ml.evaluation import Evaluator
    from pyspark.sql import Column, DataFrame, Row

    from optimizer.memory import Persistence
    from optimizer.transfer import Choice, InferenceStage
    from udfs.inference import Pooling, Reduction
    from vista_spark.network import Network
    from vista_spark.transfer._columns import Columns
    from vista_spark.transfer._inputs import Matched

__all__ = ["Run", "RunResult", "RunSpec"]

_STRUCTURED = "transfer_structured"
_IMAGE = "transfer_image"

# Spark caches a DataFrame as columns of bytes; a serialized one is a single array of bytes a partition, compressed
# where Spark was told to.
_LEVELS: dict[Persistence, StorageLevel] = {
    "deserialized": StorageLevel.MEMORY_AND_DISK_DESER,
    "serialized": StorageLevel.MEMORY_AND_DISK,
}

# Message of the operating system, in whatever Spark wraps around it.
_NO_SPACE = "No space left on device"

# Message of Spark ML if a PCA reads columns whose width is known only when it is fitted.
_PCA_TOO_WIDE = "must be no less than k="

# Side of the picture that HOG sees, in pixels: 64 x 64 gives 1764 numbers, of the order of a CNN layer.
_HOG_SIZE = 64


@dataclass(frozen=True, kw_only=True, slots=True)
class RunResult:
    """Scores and counts of one run.

    ``baseline`` is the result of the structured features alone, ``hog`` that of the HOG features; ``layers`` are from
    the bottom to the top, ``passes`` in the order in which they ran. Rows are good rows of the training set and of the
    held-out set; ``dropped`` ones are counted by reason. ``example`` is a row of the training set.
    """

    baseline: LayerResult
    hog: LayerResult | None
    layers: tuple[LayerResult, ...]
    passes: tuple[InferencePass, ...]
    train_rows: int
    test_rows: int
    dropped: Mapping[str, int]
    example: Row


@dataclass(frozen=True, kw_only=True, slots=True)
class RunSpec:
    """Settings of one run.

    The run points copies of ``downstream`` and ``evaluator`` at :data:`FEATURES` and the label. ``seed`` is that of the
    split. Without ``image_aggregation`` a record has one image. The others are parameters of
    :class:`vista_spark.FeatureTransfer`.
    """

    network: Network
    choice: Choice
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
    image_aggregation: Reduction | None = None


class Run:
    """Execution of a plan.

    ``tick`` is called with the name of each step as it begins.
    """

    def __init__(self, spec: RunSpec, tick: Callable[[str], None]) -> None:
        self._spec = spec
        self._tick = tick
        self._dropped: dict[str, int] = {}
        self._train_rows = self._test_rows = 0
        self._example: Row | None = None
        self._held_out: dict[str, pd.DataFrame] = {}

    def execute(self, matched: Matched) -> RunResult:
        """Train on every layer; the structured features alone come first, on the same rows.

        Raise ImageError or TextError for a bad image or text with ``errors="raise"``, EmptyInputError or LabelError if
        the good rows are too few to train and test on, and DiskFullError if cached tables fill the disk of Spark's
        scratch folder.
        """
        try:
            return self._execute(matched)
        except Exception as error:
            if _NO_SPACE not in cause(error).message:
                raise
            cached = self._spec.choice.physical.cached_bytes >> 20
            raise DiskFullError(
                f"the disk of Spark's scratch folder is full: about {cached:,} MiB are cached at once, and the folder "
                "takes what storage memory does not hold. Name a larger disk in spark.local.dir (SPARK_LOCAL_DIRS on a "
                "cluster), give Spark more memory (`vista plan`), transfer higher layers, or pool them."
            ) from error

    def _execute(self, matched: Matched) -> RunResult:
        spec = self._spec
        self._dropped.update(matched.dropped)
        plan, physical = spec.choice.logical, spec.choice.physical
        images = matched.joined(matched.images, physical.join) if plan.joins_first else matched.images
        source = images.repartition(physical.partitions)
        read_again = spec.hog or sum(stage.source is None for stage in plan.stages) > 1
        cache = _TableCache(_LEVELS[physical.persistence])
        if read_again:
            cache.hold(source, until=len(plan.stages))
        layers: list[LayerResult] = []
        passes: list[InferencePass] = []
        baseline: LayerResult | None = None
        hog: LayerResult | None = None
        tables: list[DataFrame] = []
        try:
            for number, stage in enumerate(plan.stages):
                self._tick(f"inference: {', '.join(plan.names[target] for target in stage.targets)}")
                cache.release(before=number - 1)
                before = source if stage.source is None else tables[stage.source]
                table = run_stage(before, stage, self._rows(stage))
                last = plan.last_reader(number)
                if plan.joins_first or last > number:
                    cache.hold(table, until=last)
                tables.append(table)
                if not plan.joins_first:
                    table = cache.hold(matched.joined(table, physical.join), until=number)
                started = time.perf_counter()
                self._count(table, complain=number == 0)
                seconds = time.perf_counter() - started
                cache.release(before=number, keep=table)
                if baseline is None:
                    self._tick("training: structured features")
                    baseline = self._train(table, "structured")
                    hog = self._hog(source, matched) if spec.hog else None
                flops = flops_by_target(spec.network.graph, stage)
                delivered = tuple(plan.names[target] for target in stage.targets)
                passes.append(InferencePass(delivered, seconds, stage.flops / 1e9))
                for target in stage.targets:
                    self._tick(f"training: {plan.names[target]}")
                    size = spec.network.length(target, spec.pooling)
                    trained = self._train(table, plan.names[target], feature_column(target), size)
                    share = flops[target] / stage.flops if stage.flops else 1 / len(stage.targets)
                    layers.append(
                        replace(
                            trained,
                            inference_pass=number,
                            inference_seconds=share * seconds,
                            gflops=flops[target] / 1e9,
                        )
                    )
        finally:
            cache.release(before=len(plan.stages) + 1)
        assert baseline is not None
        assert self._example is not None
        return RunResult(
            baseline=baseline,
            hog=hog,
            layers=tuple(layers),
            passes=tuple(passes),
            train_rows=self._train_rows,
            test_rows=self._test_rows,
            dropped=self._dropped,
            example=self._example,
        )

    def _rows(self, stage: InferenceStage) -> RowMap:
        spec = self._spec
        return stage_inference(
            spec.network,
            stage,
            image=spec.columns.image,
            keep=self._kept,
            pooling=spec.pooling,
            batch_size=spec.batch_size,
            device=spec.device,
            image_aggregation=spec.image_aggregation,
        )

    @property
    def _kept(self) -> tuple[str, ...]:
        if not self._spec.choice.logical.joins_first:
            return (self._spec.columns.on,)
        return tuple(dict.fromkeys((self._spec.columns.on, self._spec.columns.label, *self._spec.columns.inputs)))

    def _count(self, table: DataFrame, *, complain: bool) -> None:
        """Compute a table; for the first one, count the rows to train and test on."""
        spec = self._spec
        counted = table.groupBy(F.col(ERROR).alias("reason"), self._is_test.alias("test")).agg(
            F.count("*").alias("rows"),
            F.countDistinct(F.col(quoted(spec.columns.label))).alias("classes"),
            F.min(F.col(quoted(spec.columns.on))).alias("example"),
        )
        groups = counted.collect()
        if not complain:
            return
        for group in groups:
            if group["reason"] is None:
                continue
            if spec.errors == "raise":
                raise spec.network.reads.error(
                    group["reason"],
                    f'{spec.columns.on} {group["example"]!r} and others; errors="drop" leaves them out',
                )
            key = f"{spec.network.reads.kind}: {group['reason']}"
            self._dropped[key] = self._dropped.get(key, 0) + group["rows"]
        good = {group["test"]: group for group in groups if group["reason"] is None}
        self._train_rows, self._test_rows = (good[side]["rows"] if side in good else 0 for side in (False, True))
        if not self._train_rows or not self._test_rows:
            raise EmptyInputError(
                f"both sides of the split must have good {spec.network.reads.kind}s, got {self._train_rows} rows to "
                f"train on and {self._test_rows} held out ({sum(self._dropped.values())} rows left out: "
                f"{self._dropped}). Give more rows or another test_fraction."
            )
        if is_classification(spec.downstream) and good[False]["classes"] == 1:
            raise LabelError(
                f"the rows to train on must have at least two classes for a classifier, got one in {self._train_rows} "
                "rows."
            )

    @property
    def _is_test(self) -> Column:
        """Condition of held-out rows, by a hash of the id: every plan and every layer splits alike."""
        share = F.pmod(
            F.xxhash64(F.col(quoted(self._spec.columns.on)).cast("string"), F.lit(self._spec.seed)), F.lit(1_000_000)
        )
        return share < F.lit(int(self._spec.test_fraction * 1_000_000))

    def _train(self, table: DataFrame, name: str, image: str | None = None, size: int = 0) -> LayerResult:
        spec = self._spec
        started = time.perf_counter()
        data, inputs = table.where(F.col(ERROR).isNull()), []
        if spec.columns.structured:
            data, inputs = spec.columns.assembler(_STRUCTURED).transform(data), [_STRUCTURED]
        elif image is None:
            # From a constant, a model learns only the shares of the labels, or their mean.
            constant = array_to_vector(F.array(F.lit(0.0))).alias(_STRUCTURED, metadata={"ml_attr": {"num_attrs": 1}})
            data, inputs = data.withColumn(_STRUCTURED, constant), [_STRUCTURED]
        if image is not None:
            data = data.withColumn(_IMAGE, as_vector(image, size))
            inputs.append(_IMAGE)
        data = VectorAssembler(inputCols=inputs, outputCol=FEATURES).transform(data)
        names = dict.fromkeys((spec.columns.on, spec.columns.label, FEATURES, *spec.columns.read.training))
        data = data.select(*(F.col(quoted(name)) for name in names), self._is_test.alias("transfer_test"))
        train = data.where(~F.col("transfer_test"))
        if image is None:
            self._example = train.first()
        model = self._fitted(train, name)
        scored = model.transform(data.where("transfer_test"))
        score = point_at(spec.evaluator, FEATURES, spec.columns.learned).evaluate(scored)
        seconds = time.perf_counter() - started
        result = LayerResult(name, size, score, 0.0, seconds, 0.0, model)
        return self._with_intervals(result, scored)

    def _with_intervals(self, result: LayerResult, scored: DataFrame) -> LayerResult:
        """Add confidence intervals if the driver can compute them from few enough predictions."""
        spec = self._spec
        metric = metric_of(spec.evaluator)
        if metric is None or self._test_rows > MOST_ROWS:
            return result
        predicted = spec.evaluator.getOrDefault("predictionCol")
        if predicted not in scored.columns:
            return result
        held_out = scored.select(
            F.col(quoted(spec.columns.on)).cast("string").alias("id"),
            F.col(quoted(spec.columns.learned)).cast("double").alias("label"),
            F.col(quoted(predicted)).cast("double").alias("prediction"),
        ).toPandas()
        self._held_out[result.name] = held_out = held_out.set_index("id")
        baseline = self._held_out.get("structured", held_out)
        sign = 1 if spec.evaluator.isLargerBetter() else -1
        intervals = resampled(metric, held_out, baseline, result.score, sign=sign, seed=spec.seed)
        if intervals is None:
            return result
        return replace(result, interval=intervals[0], lift_interval=intervals[1])

    def _fitted(self, train: DataFrame, name: str) -> Any:
        try:
            return point_at(self._spec.downstream, FEATURES, self._spec.columns.learned).fit(train)
        except Exception as error:
            message = cause(error).message
            if _PCA_TOO_WIDE not in message:
                raise
            raise InvalidArgumentError(
                f"a PCA of the downstream pipeline makes more components than {name!r} features have numbers "
                f"({message.strip()}): the baseline has the structured features alone. Give a smaller k, or more "
                "structured features"
            ) from error

    def _hog(self, source: DataFrame, matched: Matched) -> LayerResult:
        spec = self._spec
        self._tick("baseline: HOG")
        column = feature_column("hog")
        limit = spec.network.max_pixels or MAX_PIXELS
        extraction = HOGExtraction(spec.columns.image, column, _HOG_SIZE, spec.batch_size, limit)
        table = map_rows(source, RowMap(extraction, self._kept, RowPolicy("null", ERROR)))
        if not spec.choice.logical.joins_first:
            table = matched.joined(table, spec.choice.physical.join)
        table = table.persist(_LEVELS[spec.choice.physical.persistence])
        try:
            started = time.perf_counter()
            self._count(table, complain=False)
            seconds = time.perf_counter() - started
            trained = self._train(table, "hog", column, hog_length(_HOG_SIZE))
        finally:
            table.unpersist()
        return replace(trained, inference_seconds=seconds)


class _TableCache:
    """Cached tables, each until the last stage that reads it."""

    def __init__(self, level: StorageLevel) -> None:
        self._level = level
        self._tables: list[tuple[int, DataFrame]] = []

    def hold(self, table: DataFrame, *, until: int) -> DataFrame:
        """Cache a table through a stage, by number."""
        self._tables.append((until, table.persist(self._level)))
        return table

    def release(self, *, before: int, keep: DataFrame | None = None) -> None:
        """Drop the tables that are cached until ``before`` or earlier, except ``keep``."""
        rest = [(until, table) for until, table in self._tables if table is keep or until > before]
        staying = {id(table) for _, table in rest}
        for _, table in self._tables:
            if id(table) not in staying:
                table.unpersist()
        self._tables = rest
