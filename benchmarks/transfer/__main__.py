"""Inference of feature transfer against a bare PyTorch loop, and against one ``predict_batch_udf`` pass a layer.

``python -m benchmarks.transfer`` needs two quiet cores and less than five minutes. Every arrangement gets the same JPEG
files in memory, decodes them with Pillow, and delivers the same pooled features. The run fails if an arrangement
differs by more than 1e-4 from the bare loop. In each repeat the arrangements take turns, and medians count.
"""

from __future__ import annotations

import argparse
import statistics
import time
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyspark.ml.functions import predict_batch_udf
from pyspark.sql.types import ArrayType, FloatType

from benchmarks.harness import bare_inference
from benchmarks.harness.bare_inference import Arrangement, Fleet, Task
from benchmarks.harness.photographs import jpegs
from benchmarks.harness.report import Report, load_average
from benchmarks.harness.weights import found_weights
from optimizer.transfer import plan_layers
from udfs.inference import ImageFeed, open_model
from udfs.node import keep_freed_memory
from vista_spark import CNNFeaturizer, roster, session
from vista_spark.network import network
from vista_spark.transfer._stage import feature_column, run_stage, stage_inference

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from numpy.typing import NDArray
    from pyspark.sql import DataFrame, SparkSession

    from optimizer.memory import Logical
    from optimizer.transfer import LogicalPlan
    from udfs.inference import ModelSource
    from vista_spark.network import Network

    Features = list[NDArray[np.float32]]

_TOLERANCE = 1e-4


@dataclass(frozen=True)
class Options:
    """Parse the command line."""

    images: int
    model: str
    weights: str | None
    layers: int | list[int | str]
    image_size: int | None
    batch_size: int
    cores: int
    repeats: int
    sweep: int
    json: bool


def _options(arguments: Sequence[str] | None) -> Options:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=512)
    parser.add_argument("--model", default="mobilenet_v2")
    parser.add_argument(
        "--weights", default="auto", help='a path, "random", or "auto": the ImageNet ones of mobilenet_v2 if installed'
    )
    parser.add_argument(
        "--layers", default="block13,block17,pool", help="names or numbers from the top, or how many from the top"
    )
    parser.add_argument("--image-size", type=int, help="the model's own by default")
    parser.add_argument(
        "--batch-size",
        type=int,
        default=CNNFeaturizer().getBatchSize(),
        help="images a run of the network on our side, its default by default; the other sides' is swept",
    )
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--sweep", type=int, default=64, help="images on which the bare arrangements compete")
    parser.add_argument("--json", action="store_true", help='the last line is {"ratios": {name: number, ...}}')
    given = vars(parser.parse_args(arguments))
    names = given.pop("layers")
    layers = int(names) if names.isdigit() else [int(name) if name.isdigit() else name for name in names.split(",")]
    return Options(**{**given, "layers": layers, "weights": found_weights(given["weights"], given["model"])})


def _contest(task: Task, files: Sequence[bytes], options: Options) -> list[tuple[Arrangement, float]]:
    """Bare arrangements with their images a second, the best first.

    First layout, batch and allocator with a process a core, then the other shapes with the best of those.
    """
    count = min(options.sweep, len(files))
    shape = Arrangement(options.cores, 1, 1, "NHWC", 4, keep_memory=False)
    found: dict[Arrangement, float] = {}

    def compete(processes: int, keep: bool, arrangements: list[Arrangement]) -> None:
        with Fleet(task, files[:count], processes, keep_memory=keep) as fleet:
            for arrangement in arrangements:
                fleet.run(arrangement, min(count, processes * max(16, arrangement.batch)))
            # In turns and the faster of two, so that one disturbance does not decide.
            for arrangement in [*arrangements, *arrangements]:
                rate = count / fleet.run(arrangement, count)[0]
                found[arrangement] = max(rate, found.get(arrangement, 0.0))

    for keep in (False, True):
        grid = [(layout, batch) for layout in ("NHWC", "NCHW") for batch in (4, 32)]
        compete(
            options.cores,
            keep,
            [replace(shape, layout=layout, batch=batch, keep_memory=keep) for layout, batch in grid],
        )
    best = max(found, key=found.__getitem__)
    if options.cores > 1:
        shapes = [replace(best, processes=1, loops=options.cores), replace(best, processes=1, threads=options.cores)]
        others = [replace(other, batch=batch) for other in shapes for batch in (4, 32)]
        compete(1, best.keep_memory, others)
    return sorted(found.items(), key=lambda entry: -entry[1])


@dataclass
class Sides:
    """The arrangements on Spark.

    Parameters
    ----------
    spark : SparkSession
    options : Options
    task : Task
    best : Arrangement
        The bare loop's: ``predict_batch_udf`` runs its network in the same layout, batch and allocator.
    """

    spark: SparkSession
    options: Options
    task: Task
    best: Arrangement

    def __post_init__(self) -> None:
        with _own_workers(self.spark):
            self._udfs = [
                predict_batch_udf(
                    partial(_predictor, replace(self.task, modules=(module,)), self.best),
                    return_type=ArrayType(FloatType()),
                    batch_size=self.best.batch,
                )
                for module in self.task.modules
            ]

    def featurizer(self, output: str) -> CNNFeaturizer:
        """Our transformer, as a user writes it."""
        options = self.options
        return CNNFeaturizer(
            model=options.model,
            weights=options.weights,
            layers=options.layers,
            imageSize=options.image_size,
            batchSize=options.batch_size,
            outputFormat=output,
        )

    def once(self, df: DataFrame, *, collect: bool = False) -> Features:
        """One pass for all layers."""
        featurizer = self.featurizer("array" if collect else "vector")
        return _finish(featurizer.transform(df), featurizer.getOutputCols(), collect=collect)

    def planned(self, logical: Logical, df: DataFrame, *, collect: bool = False) -> Features:
        """One pass a layer, by one of our plans; what a stage keeps for the next one is persisted, as in a transfer."""
        net, plan = self.network(), self.plan(logical)
        tables: list[DataFrame] = []
        features: Features = []
        for number, stage in enumerate(plan.stages):
            inference = stage_inference(
                net,
                stage,
                image="image",
                keep=("id",),
                pooling="max2x2",
                batch_size=self.options.batch_size,
                device="cpu",
            )
            table = run_stage(df if stage.source is None else tables[stage.source], stage, inference)
            tables.append(table.persist() if stage.writes else table)
            features += _finish(tables[-1], [feature_column(target) for target in stage.targets], collect=collect)
            if stage.source is not None and plan.last_reader(stage.source) == number:
                tables[stage.source].unpersist()
        return features

    def per_layer(self, df: DataFrame, *, collect: bool = False) -> Features:
        """One pass a layer, by Spark's own means.

        The network ends at the layer. JPEG bytes go in as they are and are decoded in the function: a decoding
        ``pandas_udf`` before it would send 600 kB of floats an image through the JVM and back.
        """
        with _own_workers(self.spark):
            parts = [
                _finish(df.select("id", udf("image").alias("feature")), ["feature"], collect=collect)
                for udf in self._udfs
            ]
        return [feature for part in parts for feature in part]

    def network(self) -> Network:
        """The model on the driver."""
        return network(self.options.model, self.options.weights, 0, self.options.image_size)

    def plan(self, logical: Logical) -> LogicalPlan:
        """One of our plans."""
        net = self.network()
        return plan_layers(net.graph, [net.layer(layer) for layer in net.layers(self.options.layers)], logical)

    def predicted(self, files: list[bytes]) -> float:
        """Ratio of the lazy plan's seconds to the staged plan's, from seconds measured segment by segment.

        Measured in our workers, one a core at the same time, without Spark in between. Decoding is a segment: the lazy
        plan decodes in every pass.
        """
        net, staged, lazy = self.network(), self.plan("staged"), self.plan("lazy")
        image = ImageFeed("image", net.image, net.preprocessing)
        measure = partial(_segments, net.source, image, staged, lazy, files[: self.options.batch_size])
        rows = self.spark.range(self.options.cores, numPartitions=self.options.cores).mapInArrow(
            measure, "staged double, lazy double"
        )
        found = rows.collect()
        return sum(row["lazy"] for row in found) / sum(row["staged"] for row in found)


@contextmanager
def _own_workers(spark: SparkSession) -> Iterator[None]:
    """Start separate Python workers for the following jobs, because settings of one side must not affect the other.

    Spark keeps apart workers whose environments differ.
    """
    environment = spark.sparkContext.environment
    environment["VISTA_BENCHMARK"] = "predict_batch_udf"
    try:
        yield
    finally:
        del environment["VISTA_BENCHMARK"]


def _predictor(task: Task, best: Arrangement) -> Callable[[NDArray[np.object_]], NDArray[np.float32]]:
    """Build the prediction function of a layer; ``predict_batch_udf`` calls this once per worker."""
    import torch  # in the worker

    torch.set_num_threads(1)
    if best.keep_memory:
        keep_freed_memory()
    model = bare_inference.Truncated(task, best.layout)

    def predict(files: NDArray[np.object_]) -> NDArray[np.float32]:
        return model(bare_inference.preprocess(list(files), task.preprocessing))[0]

    return predict


def _segments(
    source: ModelSource,
    image: ImageFeed,
    staged: LogicalPlan,
    lazy: LogicalPlan,
    files: list[bytes],
    _rows: Iterable[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    """Seconds of both plans in this worker: medians of their segments, added up."""
    model = open_model(source, "cpu", 1)
    column = pa.array(files, pa.binary())
    pixels, _ = image.read(column)

    def timed(run: Callable[[], Any]) -> float:
        run()
        seconds = []
        for _ in range(3):
            started = time.perf_counter()
            run()
            seconds.append(time.perf_counter() - started)
        return statistics.median(seconds)

    decoding = timed(lambda: image.read(column))
    sums = {"staged": decoding, "lazy": decoding * len(lazy.stages)}
    for name, plan in (("staged", staged), ("lazy", lazy)):
        have = {image.layer: pixels}
        for stage in plan.stages:
            want = list(dict.fromkeys((*stage.targets, *stage.writes)))
            fed = {layer: have[layer] for layer in stage.reads}
            sums[name] += timed(partial(model.run, fed, want))
            have |= model.run(fed, want)
    yield pa.RecordBatch.from_pydict({name: [seconds] for name, seconds in sums.items()})


def _finish(df: DataFrame, columns: Sequence[str], *, collect: bool) -> Features:
    """Compute every column: into nothing, or as arrays in the order of the id."""
    if not collect:
        df.write.format("noop").mode("overwrite").save()
        return []
    table = df.select("id", *columns).toArrow().sort_by("id").combine_chunks()
    return [_matrix(table.column(name).combine_chunks()) for name in columns]


def _matrix(lists: Any) -> NDArray[np.float32]:
    whole = lists.chunk(0) if isinstance(lists, pa.ChunkedArray) else lists
    assert not whole.null_count, "an image could not be read"
    return whole.flatten().to_numpy(zero_copy_only=False).reshape(len(whole), -1)


def _check(name: str, found: Features, expected: Features) -> float:
    """Return the largest difference, relative to expected values above 1."""
    assert [part.shape for part in found] == [part.shape for part in expected], name
    worst = max(
        float((abs(one - other) / np.maximum(1, abs(other))).max()) for one, other in zip(found, expected, strict=True)
    )
    assert worst <= _TOLERANCE, f"{name} differs from the bare loop by {worst:.2g}"
    return worst


def _cached(spark: SparkSession, files: Sequence[bytes], partitions: int) -> DataFrame:
    table = pa.table({"id": pa.array(range(len(files)), pa.int64()), "image": pa.array(files, pa.binary())})
    df = spark.createDataFrame(table).repartition(partitions).persist()
    df.count()
    return df


def _timed(run: Callable[[], object]) -> float:
    started = time.perf_counter()
    run()
    return time.perf_counter() - started


@dataclass
class Timings:
    """Seconds of the arrangements by name, and the differences of the check."""

    cold: dict[str, float]
    warm: dict[str, list[float]]
    worst: float
    predicted: float

    def median(self, name: str) -> float:
        """The median of the repeats."""
        return statistics.median(self.warm[name])


def _measure(sides: Sides, files: list[bytes], fleet: Fleet, cold: dict[str, float]) -> Timings:
    """Cold once, then a check of every arrangement, then warm runs in turns."""
    spark, options, best = sides.spark, sides.options, sides.best
    few = files[: max(8 * options.cores, 2)]
    df, small = _cached(spark, files, options.cores), _cached(spark, few, options.cores)
    cold["ours"] = _timed(lambda: sides.once(df))
    runs: dict[str, Callable[..., Features]] = {
        "ours": sides.once,
        "staged": partial(sides.planned, "staged"),
        "lazy": partial(sides.planned, "lazy"),
        "predict_batch_udf": sides.per_layer,
    }
    _, expected = fleet.run(best, len(few))
    worst = max(_check(name, run(small, collect=True), expected) for name, run in runs.items())
    warm: dict[str, list[float]] = {name: [] for name in (*runs, "bare")}
    for _ in range(options.repeats):
        for name, run in runs.items():
            # Spark ends workers that were idle for a minute, so each side's are woken outside of the clock.
            run(small)
            warm[name].append(_timed(partial(run, df)))
        fleet.run(best, len(few))
        seconds, expected = fleet.run(best, len(files))
        warm["bare"].append(seconds)
    worst = max(worst, _check("ours", sides.once(df, collect=True), expected))
    return Timings(cold, warm, worst, sides.predicted(files))


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the benchmark."""
    options = _options(arguments)
    card = roster.card(options.model)
    size = options.image_size
    preprocessing = card.preprocessing if size is None else card.preprocessing.with_size(size)
    layers = card.resolve(options.layers)
    task = Task(options.model, options.weights, tuple(layer.module for layer in layers), preprocessing)
    files = jpegs(options.images)
    started, load = time.perf_counter(), load_average()
    contest = _contest(task, files, options)
    best = contest[0][0]
    before = time.perf_counter()
    with Fleet(task, files, best.processes, keep_memory=best.keep_memory) as fleet:
        fleet.run(best, len(files))
        cold = {"bare": time.perf_counter() - before}
        spark = session(f"local[{options.cores}]", conf={"spark.ui.enabled": "false"})
        try:
            spark.sparkContext.setLogLevel("ERROR")
            sides = Sides(spark, options, task, best)
            timings = _measure(sides, files, fleet, cold)
            plan = sides.plan("staged")
        finally:
            spark.stop()
    weights = "random weights" if options.weights is None else "ImageNet weights"
    report = Report(
        f"Feature transfer: {options.model}, {weights}, layers {', '.join(layer.name for layer in layers)}; "
        f"{len(files)} JPEG of 500x375 in memory, input {preprocessing.crop} px; local[{options.cores}]"
    )
    report.table(
        f"Bare arrangements on {min(options.sweep, len(files))} images",
        ("arrangement", "images/s", ""),
        [
            (str(arrangement), f"{rate:.1f}", "<- the baseline" if arrangement == best else "")
            for arrangement, rate in contest
        ],
    )
    _fill(report, timings, plan, len(layers), len(files), options.batch_size)
    report.note(
        f"Took {time.perf_counter() - started:.0f} s; load average before {load}, after {load_average()}: "
        f"above {options.cores} the cores were not ours alone."
    )
    report.show(as_json=options.json)


def _fill(report: Report, timings: Timings, plan: LogicalPlan, passes: int, images: int, batch_size: int) -> None:
    says = {
        "bare": "the best arrangement above; torch's inference mode; features gathered as numpy in one process",
        "ours": f"CNNFeaturizer, one pass for all layers, batchSize {batch_size}, vectors, noop sink",
        "staged": f"our staged plan: {passes} passes, one a layer, each from where the last ended; arrays, noop sink",
        "lazy": f"our lazy plan: {passes} passes, each from the images; arrays, noop sink",
        "predict_batch_udf": f"{passes} passes from JPEG bytes, each network cut at its layer, set up as the bare loop",
    }
    rows = []
    for name in ("bare", "ours"):
        says_cold = "with its start: processes, torch, model" if name == "bare" else "first job: workers, torch, model"
        rows.append((f"{name}, cold", f"{images / timings.cold[name]:.1f}", f"{timings.cold[name]:.2f}", "", says_cold))
    for name, text in says.items():
        seconds, spread = timings.median(name), timings.warm[name]
        rows.append(
            (name, f"{images / seconds:.1f}", f"{seconds:.2f}", f"{min(spread):.2f} to {max(spread):.2f}", text)
        )
    report.table(
        "Spark against bare, warm unless it says cold", ("what", "images/s", "seconds", "from to", "how"), rows
    )
    report.note(
        "The same work on all sides: the same JPEG bytes from memory, Pillow's decoding and bilinear resizing, one set "
        "of layers, 2x2 max pooling; a Spark worker a core with one torch thread each. "
        f"All agree with the bare loop within {timings.worst:.1g} (relative above 1)."
    )
    report.note(
        "predict_batch_udf decodes the bytes in its own function: a decoding pandas_udf before it would be slower. Its "
        "models stay cached between repeats, for up to 3 layers. "
        f"Planned speed-up of staged over lazy: {plan.speedup:.2f} by FLOPs, "
        f"{timings.predicted:.2f} by measured segments (decoding and network, without Spark)."
    )
    lazy, own, staged = (timings.median(name) for name in ("predict_batch_udf", "lazy", "staged"))
    bare, ours = timings.median("bare"), timings.median("ours")
    report.ratio("vs_bare", bare / ours, "seconds of bare / ours, both warm", 0.95)
    report.ratio("vs_bare_cold", timings.cold["bare"] / timings.cold["ours"], "the same, cold")
    report.ratio(
        "vs_lazy_over_flops", lazy / staged / plan.speedup, "(predict_batch_udf / staged) / speed-up by FLOPs", 0.95
    )
    report.ratio(
        "vs_lazy_over_seconds", lazy / staged / timings.predicted, "(predict_batch_udf / staged) / speed-up by segments"
    )
    report.ratio(
        "one_pass_over_flops", lazy / ours / plan.speedup, "(predict_batch_udf / ours in one pass) / speed-up by FLOPs"
    )
    report.ratio("vs_lazy", lazy / staged, "predict_batch_udf / staged")
    report.ratio("vs_own_lazy", own / staged, "our lazy plan / our staged plan")


if __name__ == "__main__":
    main()
