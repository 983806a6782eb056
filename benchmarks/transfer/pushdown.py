"""Featurize, then filter: seconds with the JVM plugin's push-down, without it, with Spark's own, and of the ideal.

``python -m benchmarks.transfer.pushdown`` keeps a tenth of the photographs, by a filter after the featurizer. The ideal
filters before it. *Without the plugin* is the featurizer as an Arrow UDF, as ``errors="null"`` runs it, and
``predict_batch_udf`` is Spark's own scalar function; Spark moves the filter of both. All sides run MobileNetV2 on the
same rows in one session; medians of warm runs, in turns. ``make jvm`` builds the jar.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy as np
    from numpy.typing import NDArray
    from pyspark.sql import DataFrame, SparkSession

    from benchmarks.harness.bare_inference import Task

_SETTING = "spark.cerebro.pushdown"
_WITHOUT_RULE = ("without the plugin", "plain mapInArrow")


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the comparison and print the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=1000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--json", action="store_true", help='the last line is {"ratios": {name: number, ...}}')
    options = parser.parse_args(arguments)
    from benchmarks.harness.report import Report, load_average
    from udfs.driver import plugin_jar
    from vista_spark import session

    if plugin_jar() is None:
        sys.exit("the jar of the JVM plugin must be built first: make jvm")
    report = Report(f"featurize, then filter: {options.images} photographs, 10 % kept, load {load_average()}")
    spark = session(f"local[{options.cores}]", conf={"spark.ui.enabled": "false", "spark.log.level": "ERROR"})
    try:
        _compare(report, spark, options)
    finally:
        spark.stop()
    report.show(as_json=options.json)


def _compare(report: Any, spark: SparkSession, options: argparse.Namespace) -> None:
    sides = _sides(spark, options)
    taken: dict[str, list[float]] = {name: [] for name in sides}
    for repeat in range(options.repeats + 1):
        for name, side in sides.items():
            spark.conf.set(_SETTING, str(name not in _WITHOUT_RULE).lower())
            # All rows take ten times as long, and are measured less often.
            if name == "plain mapInArrow" and repeat > 2:
                continue
            began = time.perf_counter()
            side().write.format("noop").mode("overwrite").save()
            if repeat:  # the first run is cold
                taken[name].append(time.perf_counter() - began)
    medians = {name: statistics.median(seconds) for name, seconds in taken.items()}
    report.table(
        "Seconds of a warm run",
        ("side", "median", "range", "runs"),
        [
            (name, f"{medians[name]:.2f}", f"{min(seconds):.2f} to {max(seconds):.2f}", str(len(seconds)))
            for name, seconds in taken.items()
        ],
    )
    ideal = medians["ideal"]
    report.ratio("pushdown_vs_ideal", ideal / medians["push-down"], "ideal / push-down", 0.9)
    report.ratio("without_vs_ideal", ideal / medians["without the plugin"], "ideal / without the plugin")
    report.ratio("spark_vs_ideal", ideal / medians["predict_batch_udf"], "ideal / predict_batch_udf")
    report.ratio("plain_vs_ideal", ideal / medians["plain mapInArrow"], "ideal / plain mapInArrow")
    report.ratio("pushdown_vs_plain", medians["plain mapInArrow"] / medians["push-down"], "plain / push-down")


def _sides(spark: SparkSession, options: argparse.Namespace) -> dict[str, Callable[[], DataFrame]]:
    from pyspark.ml.functions import predict_batch_udf
    from pyspark.sql.types import ArrayType, FloatType

    from benchmarks.harness.bare_inference import Task
    from benchmarks.harness.photographs import jpegs
    from benchmarks.harness.weights import found_weights
    from vista_spark import CNNFeaturizer, roster

    rows = list(enumerate(jpegs(options.images)))
    df = spark.createDataFrame(rows, "id long, image binary").repartition(2 * options.cores, "id").cache()
    df.count()
    weights, card = found_weights("auto", "mobilenet_v2"), roster.card("mobilenet_v2")
    (layer,) = card.resolve(["pool"])
    task = Task("mobilenet_v2", weights, (layer.module,), card.preprocessing)
    featurizer = CNNFeaturizer(
        inputCol="image", model="mobilenet_v2", weights=weights, layers=["pool"], outputCols=["feature"], errors="raise"
    )
    by_columns = featurizer.copy().setErrors("null")
    udf: Any = predict_batch_udf(partial(_predictor, task), return_type=ArrayType(FloatType()), batch_size=32)
    few = "id % 10 = 0"
    return {
        "ideal": lambda: featurizer.transform(df.where(few)).drop("image"),
        "push-down": lambda: featurizer.transform(df).where(few).drop("image"),
        "without the plugin": lambda: by_columns.transform(df).where(few).drop("image"),
        "predict_batch_udf": lambda: df.select("id", udf("image").alias("feature")).where(few),
        "plain mapInArrow": lambda: featurizer.transform(df).where(few).drop("image"),
    }


def _predictor(task: Task) -> Callable[[NDArray[np.object_]], NDArray[np.float32]]:
    """Build the prediction function of the scalar side; ``predict_batch_udf`` calls this once per worker."""
    import torch  # in the worker

    from benchmarks.harness import bare_inference

    torch.set_num_threads(1)
    model = bare_inference.Truncated(task, "NHWC")

    def predict(files: NDArray[np.object_]) -> NDArray[np.float32]:
        return model(bare_inference.preprocess(list(files), task.preprocessing))[0]

    return predict


if __name__ == "__main__":
    main()
