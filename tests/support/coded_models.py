"""Specialised models of frames that are numbers, and runs of them over streams of files."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import coded_frames
from coded_frames import CLASSES, CodedFeatures, CodedScores, CodedStage, compact_models, learned_parts, policy
from pyspark import cloudpickle
from pyspark.errors import StreamingQueryException

from vista_spark import SpecializedModel

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter
    from pyspark.sql.types import StructType

__all__ = ["coded_model", "rocksdb_state", "run_stream"]

cloudpickle.register_pickle_by_value(coded_frames)  # workers do not import modules of tests
cloudpickle.register_pickle_by_value(sys.modules[__name__])

_ATTEMPTS = 6
_ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
_PROVIDER = "spark.sql.streaming.stateStore.providerClass"


def coded_model(
    *functions: CodedFeatures,
    oracle: Any = None,
    labels: Sequence[Any] | None = None,
    kind: str = "string",
    trains: bool = False,
    **settings: Any,
) -> SpecializedModel:
    """Make a model whose answers are looked up; the settings are those of the policy."""
    functions = functions or (CodedFeatures(),)
    model = SpecializedModel(
        oracle or CodedScores(),
        [CodedStage(each) for each in functions],
        policy(len(functions), **settings),
        compact_models(len(functions)),
        [f"c{place}" for place in range(CLASSES)] if labels is None else labels,
        kind,
        data=learned_parts(*functions, trains=trains),
    )
    return model.setGroupCol("camera")


@contextmanager
def rocksdb_state(spark: SparkSession) -> Iterator[None]:
    """Let streaming queries keep their state in RocksDB, as ``transformWithState`` requires."""
    spark.conf.set(_PROVIDER, _ROCKSDB)
    try:
        yield
    finally:
        spark.conf.unset(_PROVIDER)


def run_stream(
    spark: SparkSession,
    model: SpecializedModel,
    parts: Sequence[DataFrame],
    folder: Path,
    schema: StructType | None = None,
) -> DataFrame:
    """Label the parts as micro-batches of a query, which continues from its checkpoint if it is there."""
    schema = schema or parts[0].schema
    source = folder / "in"
    number = len(list(source.glob("*"))) if source.exists() else 0
    for place, part in enumerate(parts):
        part.coalesce(1).write.parquet(str(source / f"{number + place:04d}"))
    with rocksdb_state(spark):
        stream = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(source / "*"))
        writer = (
            model.transform(stream)
            .writeStream.format("parquet")
            .option("path", str(folder / "out"))
            .option("checkpointLocation", str(folder / "checkpoint"))
            .trigger(availableNow=True)
        )
        _run(writer)
    return spark.read.parquet(str(folder / "out"))


def _run(writer: DataStreamWriter) -> None:
    """Run a query, again if Spark did not wait for its process: it allows 10 s, too few on a busy machine."""
    for attempt in range(_ATTEMPTS):
        try:
            writer.start().awaitTermination()
        except StreamingQueryException as error:
            if attempt == _ATTEMPTS - 1 or "Python worker failed to connect back" not in str(error):
                raise
        else:
            return
