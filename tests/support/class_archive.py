"""Archive of the classes that Spark's JVM loads, which halves the time in which the JVMs of the tests start.

``python tests/support/class_archive.py FILE`` writes it. A JVM of another version, or with other jars, ignores it.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from java_options import QUIET, java_options
from pyspark.ml.classification import LogisticRegression
from pyspark.ml.feature import VectorAssembler
from pyspark.sql import functions as F
from sessions import new_session

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from pyspark.sql import SparkSession

__all__ = ["main"]


def main(path: Path) -> None:
    """Run some jobs in a session, and archive what its JVM has loaded; write an empty file where the JVM cannot."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    os.environ.setdefault("JDK_JAVA_OPTIONS", java_options())
    with tempfile.TemporaryDirectory() as folder:
        archive = Path(folder) / "spark.jsa"
        options = f"-XX:ArchiveClassesAtExit={archive} {QUIET}"
        spark = new_session(Path(folder), java_options=options)
        _jobs(spark, folder)
        gateway = spark.sparkContext._gateway
        assert gateway is not None
        spark.stop()
        gateway.proc.stdin.close()  # which ends the JVM
        gateway.proc.wait()
        if archive.is_file():
            shutil.move(archive, path)
        else:
            path.touch()


def _jobs(spark: SparkSession, folder: str) -> None:
    def same(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from batches

    df = spark.createDataFrame([(i, float(i % 7), i % 2) for i in range(60)], "id long, x double, label int")
    df.write.parquet(f"{folder}/rows")
    rows = spark.read.parquet(f"{folder}/rows").repartition(2).cache()
    rows.mapInArrow(same, rows.schema).join(rows.groupBy("label").agg(F.avg("x")), "label").orderBy("id").collect()
    vectors = VectorAssembler(inputCols=["x"], outputCol="features").transform(rows)
    LogisticRegression(maxIter=1).fit(vectors).transform(vectors).toPandas()


if __name__ == "__main__":
    main(Path(sys.argv[1]).absolute())
