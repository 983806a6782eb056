"""Every stage on a stream: files that arrive, a restart from the checkpoint, a bad file, a wrong column."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import stages
from coded_models import rocksdb_state
from photographs import crops, encode
from pyspark.ml import Estimator
from pyspark.sql import Row
from pyspark.sql import functions as F
from stages import STAGES

from vista_spark import CNNFeaturizer
from vista_spark.errors import ColumnError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pyspark.ml import Transformer
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import DataStreamWriter, StreamingQuery

# A stage of each room in the core suite; that all read a stream is their common base's doing.
_CORE = ("CNNFeaturizer", "TunedModel")
_EACH = [pytest.param(name, marks=() if name in _CORE else (pytest.mark.extended,)) for name in STAGES]


@pytest.fixture(autouse=True)
def _rocksdb_state(spark: SparkSession) -> Iterator[None]:
    with rocksdb_state(spark):
        yield


BINARY_FILE = "path string, modificationTime timestamp, length long, content binary"


def fitted(name: str, rows: DataFrame) -> Transformer:
    stage = STAGES[name].make()
    return stage.fit(rows) if isinstance(stage, Estimator) else stage


def into(writer: DataStreamWriter, folder: Path, how: str) -> DataStreamWriter:
    """Write a stream to Parquet by Spark's own sink, or batch by batch."""
    if how == "plain":
        return writer.format("parquet").option("path", str(folder))
    path = str(folder)

    # Not of the module: a Connect server runs it, and cannot import this file.
    def append(batch: DataFrame, _number: int) -> None:
        batch.write.mode("append").parquet(path)

    return writer.foreachBatch(append)


def started(df: DataFrame, tmp_path: Path, how: str = "plain") -> StreamingQuery:
    checkpoint = str(tmp_path / "checkpoint")
    return into(df.writeStream.option("checkpointLocation", checkpoint), tmp_path / "out", how).start()


def same(found: Any, expected: Any) -> bool:
    """Whether two values agree; of an explanation, which has its seconds, whether there is one."""
    if found is None or expected is None or isinstance(expected, str):
        return bool(found == expected)
    if isinstance(expected, Row):
        return isinstance(found, Row)
    arrays = [value.toArray() if hasattr(value, "toArray") else np.asarray(value) for value in (found, expected)]
    return bool(np.allclose(*arrays, atol=1e-5))


@pytest.mark.parametrize("name", _EACH)
def test_a_stage_transforms_what_arrives(spark: SparkSession, name: str, tmp_path: Path) -> None:
    rows = STAGES[name].frame(spark, 6)
    stage = fitted(name, rows)
    rows.coalesce(1).write.parquet(str(tmp_path / "in"))
    stream = spark.readStream.schema(rows.schema).parquet(str(tmp_path / "in"))
    transformed = stage.transform(stream)
    assert transformed.isStreaming
    query = started(transformed, tmp_path)
    query.processAllAvailable()
    query.stop()
    found = spark.read.parquet(str(tmp_path / "out")).sort("id").collect()
    expected = stage.transform(rows).sort("id").collect()
    assert [row["id"] for row in found] == list(range(6))
    for row, right in zip(found, expected, strict=True):
        for column in STAGES[name].adds:
            assert same(row[column], right[column]), column


@pytest.mark.parametrize("how", ["plain", "foreachBatch"])
@pytest.mark.connect
def test_files_arrive_and_a_restart_goes_on_from_the_checkpoint(spark: SparkSession, how: str, tmp_path: Path) -> None:
    stage = CNNFeaturizer(model="squeezenet1_1", imageSize=64, outputCols=["features"], seed=5, pooling="mean")
    incoming = tmp_path / "incoming"
    incoming.mkdir()
    pictures = [encode(picture) for *_, picture in crops(5, side=64)]

    def arrive(*names: str) -> None:
        for place, name in enumerate(names):
            hidden = incoming / f".{name}"  # a stream may see half of a file that is written under its own name
            hidden.write_bytes(b"no image" if "bad" in name else pictures[place])
            hidden.rename(incoming / name)

    def query() -> StreamingQuery:
        files = spark.readStream.schema(BINARY_FILE).format("binaryFile").load(str(incoming))
        named = files.select(F.element_at(F.split("path", "/"), -1).alias("name"), F.col("content").alias("image"))
        return started(stage.transform(named).drop("image"), tmp_path, how)

    def written() -> dict[str, str | None]:
        rows = spark.read.parquet(str(tmp_path / "out")).collect()
        assert len(rows) == len({row["name"] for row in rows}), "a file was transformed twice"
        assert all((row["features"] is None) == (row["image_error"] is not None) for row in rows)
        return {row["name"]: row["image_error"] for row in rows}

    arrive("a.jpg", "b.jpg")
    running = query()
    running.processAllAvailable()
    assert written() == {"a.jpg": None, "b.jpg": None}
    arrive("c.jpg", "bad.jpg")
    running.processAllAvailable()
    assert written() == {
        "a.jpg": None,
        "b.jpg": None,
        "c.jpg": None,
        "bad.jpg": "not a JPEG, PNG, WEBP, GIF, BMP or TIFF image",
    }
    running.stop()
    arrive("d.jpg")
    running = query()
    running.processAllAvailable()
    running.stop()
    assert set(written()) == {"a.jpg", "b.jpg", "c.jpg", "bad.jpg", "d.jpg"}


def test_a_bad_file_stops_the_query_where_the_stage_says_so(spark: SparkSession, tmp_path: Path) -> None:
    rows = spark.createDataFrame([(1, b"no image")], "id long, image binary")
    rows.write.parquet(str(tmp_path / "in"))
    stream = spark.readStream.schema(rows.schema).parquet(str(tmp_path / "in"))
    query = started(CNNFeaturizer(model="squeezenet1_1", imageSize=64, errors="raise").transform(stream), tmp_path)
    with pytest.raises(Exception, match="not a JPEG"):
        query.processAllAvailable()
    assert "not a JPEG" in str(query.exception())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda df: df.withColumnRenamed("image", "picture"), "no column 'image'"),
        (lambda df: df.withColumn("image", F.col("id")), "column 'image' of .* must be an image.*got bigint"),
        (lambda df: df.withColumn("image_error", F.lit("")), "column 'image_error' exists already"),
    ],
)
@pytest.mark.connect
def test_a_wrong_column_is_refused_before_the_query_starts(
    spark: SparkSession, change: Callable[[Any], Any], message: str
) -> None:
    stream = spark.readStream.format("rate").load().selectExpr("value AS id", "cast(null AS binary) AS image")
    with pytest.raises(ColumnError, match=message):
        CNNFeaturizer(model="squeezenet1_1", imageSize=64).transform(change(stream))


@pytest.mark.connect
def test_a_wrong_column_of_a_tuned_model_is_refused_too(spark: SparkSession) -> None:
    stream = spark.readStream.format("rate").load().selectExpr("value AS id", "'a' AS numbers")
    with pytest.raises(ColumnError, match=r"feature 'numbers' must be .*got string"):
        stages.tuned_model().transform(stream)
