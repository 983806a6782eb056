"""Compiled models over DataFrames: beside Spark ML's own ``transform``, and beside a bare loop outside of Spark.

``python -m benchmarks.compiling.spark`` writes drawn rows of 20 columns to Parquet and reads them in one session of two
cores. *Spark ML*: a random forest and gradient-boosted trees of Spark ML predict classes and probabilities from a
vector column; compiled, the same models do so from the same column, with the plain columns beside it or without them,
and from the 20 plain columns. *Bare*: a forest of scikit-learn, compiled, over the plain columns in Spark, and by two
processes of one thread that read the same files by pyarrow in batches of the same size. Beside it stands what Spark
takes to read the columns, and to bring them to Python. Results are dropped on all sides (``noop``); medians of warm
runs, by the clock.
``--rows 1000000 --trees 100`` is what is to be quoted.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import SparkSession

    from benchmarks.compiling._spark import Took
    from benchmarks.harness.report import Report

_CORES, _FITTED, _SAMPLE = 2, 5_000, 2_000
_FOREST, _BOOSTED, _BARE = 8.0, 3.0, 0.8


def main(arguments: Sequence[str] | None = None) -> None:
    """Run both comparisons and print the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--trees", type=int, default=40, help="of the forests; half as many are boosted")
    parser.add_argument("--depth", type=int, default=8, help="of the forests")
    parser.add_argument("--boosted-depth", type=int, default=5)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", action="store_true", help="the last line is one JSON object")
    options = parser.parse_args(arguments)
    from pyspark.sql import SparkSession

    from benchmarks.compiling._spark import write_rows  # `--help` is not to wait for it
    from benchmarks.harness.report import Report, load_average

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    report = Report(f"compiled models in Spark, {options.rows:,} rows of 20 columns, load {load_average()}")
    with tempfile.TemporaryDirectory() as folder:
        files = write_rows(options.rows, Path(folder, "rows"))
        spark = (
            SparkSession.builder.master(f"local[{_CORES}]")
            .config("spark.driver.memory", "3g")
            .config("spark.ui.enabled", "false")
            .config("spark.sql.warehouse.dir", str(Path(folder, "warehouse")))
            .config("spark.ui.showConsoleProgress", "false")
            .getOrCreate()
        )
        try:
            took = _beside_spark_ml(report, spark, Path(folder, "rows"), options)
            took |= _beside_a_loop(report, spark, files, options)
        finally:
            spark.stop()
    report.table(
        "Seconds of a run",
        ("what", "clock", "CPU, all processes", ""),
        [(name, f"{one.seconds:.2f}", f"{one.cpu_s:.2f}", "") for name, one in took.items()],
    )
    report.show(as_json=options.json)


def _beside_spark_ml(report: Report, spark: SparkSession, folder: Path, options: argparse.Namespace) -> dict[str, Took]:
    from pyspark.ml.classification import GBTClassifier, RandomForestClassifier
    from pyspark.ml.feature import VectorAssembler

    from benchmarks.compiling._spark import NAMES, into_nothing, timed
    from vista_spark import TensorPipeline, compile_pipeline

    plain = spark.read.parquet(str(folder))
    assembled = VectorAssembler(inputCols=list(NAMES), outputCol="features").transform(plain)
    few = assembled.limit(_FITTED)
    models = {
        "forest": (RandomForestClassifier(numTrees=options.trees, maxDepth=options.depth, seed=0), _FOREST),
        "gbt": (GBTClassifier(maxIter=max(options.trees // 2, 1), maxDepth=options.boosted_depth, seed=0), _BOOSTED),
    }
    took: dict[str, Took] = {}
    for name, (estimator, target) in models.items():
        model = estimator.fit(few)  # type: ignore[attr-defined]
        compiled = compile_pipeline(model)
        by_vector = TensorPipeline(compiled=compiled, featuresCol="features")
        by_column = TensorPipeline(compiled=compiled, inputCols=list(NAMES))
        results = {
            f"{name}, Spark ML": model.transform(assembled),
            f"{name}, compiled, a vector column": by_vector.transform(assembled),
            f"{name}, compiled, plain columns": by_column.transform(plain),
        }
        first = [
            [row["prediction"] for row in df.orderBy(*NAMES[:3]).limit(_SAMPLE).collect()] for df in results.values()
        ]
        if first[0] != first[1] or first[0] != first[2]:
            sys.exit(f"{name}: compiled, it predicts other classes than Spark ML")
        results[f"{name}, compiled, a vector column alone"] = by_vector.transform(assembled.select("features"))
        own = {
            what: timed(lambda df=df: into_nothing(df.select("prediction", "probability")), options.repeats)
            for what, df in results.items()
        }
        took |= own
        theirs, vector, columns, alone = own.values()
        report.ratio(f"vs_spark_ml.{name}", theirs.seconds / vector.seconds, "Spark ML over compiled", target)
        report.ratio(f"vs_spark_ml_alone.{name}", theirs.seconds / alone.seconds, "the same, no other column beside it")
        report.ratio(f"vs_spark_ml_columns.{name}", theirs.seconds / columns.seconds, "the same from plain columns")
    return took


def _beside_a_loop(
    report: Report, spark: SparkSession, files: list[Path], options: argparse.Namespace
) -> dict[str, Took]:
    import pyarrow.parquet as pq
    from sklearn.ensemble import RandomForestClassifier

    from benchmarks.compiling._spark import NAMES, bare, into_nothing, only_to_python, timed
    from vista_spark import TensorPipeline, compile_pipeline

    table = pq.read_table(files[0]).slice(0, _FITTED).to_pandas()
    forest = RandomForestClassifier(options.trees, max_depth=options.depth, random_state=0, n_jobs=1)
    compiled = compile_pipeline(forest.fit(table[list(NAMES)].to_numpy(), table["label"]))
    path = files[0].parent.parent / "forest.safetensors"
    compiled.save(path)
    stage = TensorPipeline(compiled=compiled, inputCols=list(NAMES), probabilityCol="", batchSize=8192)
    plain = spark.read.parquet(str(files[0].parent))
    read = plain.select(*NAMES)
    result = stage.transform(plain).select("prediction")
    parts = {
        "20 plain columns, read alone": timed(lambda: into_nothing(read), options.repeats),
        "20 plain columns, brought to Python alone": timed(lambda: into_nothing(only_to_python(read)), options.repeats),
    }
    took = {
        "scikit-learn's forest, compiled, in Spark": timed(lambda: into_nothing(result), options.repeats),
        "scikit-learn's forest, compiled, bare": bare(path, files, _CORES, 8192, options.repeats),
    }
    ours, loop = took.values()
    report.ratio("vs_bare", loop.seconds / ours.seconds, "seconds of two bare processes over those in Spark", _BARE)
    report.ratio("vs_bare_cpu", loop.cpu_s / ours.cpu_s, "the same of CPU seconds")
    return parts | took


if __name__ == "__main__":
    main()
