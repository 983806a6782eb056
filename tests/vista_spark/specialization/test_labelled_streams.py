"""Specialised models over DataFrames and Structured Streaming: rows of a loop, types that pass through, restarts."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from sessions import CONNECT

pytest.importorskip("torch")

from coded_frames import CLASSES, CodedScores, label_in_a_loop, spec
from coded_models import coded_model, run_stream
from pyspark.ml.functions import array_to_vector
from pyspark.sql import functions as F

from optimizer.errors import InvalidArgumentError
from optimizer.specialization import Segment, draw_labels

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

COLUMNS = ("camera", "t", "frame", "prediction", "model", "phase", "frame_error")


def codes(seed: int) -> list[int | None]:
    draw = np.random.default_rng(seed)
    labels = draw_labels([Segment(2, 0.95, 0.2), Segment(3, 0.9, 0.15)], classes=CLASSES, seed=seed)
    frames: list[int | None] = [1000 * int(label) + int(draw.integers(900)) for label in labels]
    frames[30:30] = [None, -1]
    return frames


CAMERAS: dict[str | None, list[int | None]] = {"left": codes(1), "": codes(2), None: codes(3)}
ROWS = sorted(
    ((camera, float(place), code) for camera, frames in CAMERAS.items() for place, code in enumerate(frames)),
    key=lambda row: row[1],
)


@pytest.fixture(scope="module")
def frames(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame(ROWS, "camera string, t double, frame long").repartition(3).cache()


@pytest.fixture(scope="module")
def batch(frames: DataFrame) -> dict[Any, tuple[Any, ...]]:
    return by_frame(coded_model().transform(frames))


def by_frame(labelled: DataFrame) -> dict[Any, tuple[Any, ...]]:
    rows = [tuple(row) for row in labelled.select(*COLUMNS).collect()]
    table = {row[:2]: row[2:] for row in rows}
    assert len(table) == len(rows)
    return table


def test_cameras_that_alternate_are_labelled_as_in_loops(batch: dict[Any, Any], tmp_path: Path) -> None:
    models = spec(tmp_path / "rows.npz", trains=False)
    assert len(batch) == len(ROWS)
    for camera, numbers in CAMERAS.items():
        # Checks depend on the name; a null differs from the empty text.
        loop = label_in_a_loop(
            models, [(float(place), code) for place, code in enumerate(numbers)], "" if camera is None else f"={camera}"
        )
        rows = [batch[camera, float(place)] for place in range(len(numbers))]
        assert [row[1:] for row in rows] == [(*row[:3], row[4]) for row in loop]
        assert {row[3] for row in rows} == {"explore", "train", "trial", "specialized", None}


@pytest.mark.parametrize("cuts", [(40.5,), pytest.param((11.0, 31.5, 90.0), marks=pytest.mark.extended)])
def test_micro_batches_give_the_rows_of_the_batch(
    spark: SparkSession, frames: DataFrame, batch: dict[Any, Any], cuts: tuple[float, ...], tmp_path: Path
) -> None:
    bounds = [-1.0, *cuts, 1e9]
    parts = [frames.where(f"t > {low} AND t <= {high}") for low, high in pairwise(bounds)]
    # The second query continues from the checkpoint of the first.
    run_stream(spark, coded_model(), parts[:-1], tmp_path)
    assert by_frame(run_stream(spark, coded_model(), parts[-1:], tmp_path)) == batch


@pytest.mark.slow
@pytest.mark.parametrize("trains", [False, True])
def test_a_worker_that_is_killed_in_a_stream(
    spark: SparkSession, frames: DataFrame, trains: bool, tmp_path: Path
) -> None:
    left = frames.where("camera = 'left' AND t < 100")
    # An expert is in training, if it is trained, when the process ends.
    fatal, marker = next(code for code in CAMERAS["left"][16:] if code is not None), tmp_path / "killed"
    model = coded_model(oracle=CodedScores(fatal=fatal, marker=str(marker)), trains=trains)
    parts = [left.where("t < 8"), left.where("t >= 8 AND t < 60"), left.where("t >= 60")]
    with pytest.raises(Exception, match="Python worker exited unexpectedly"):
        run_stream(spark, model, parts, tmp_path)
    assert marker.exists()
    rows = run_stream(spark, model, [], tmp_path, left.schema)
    assert by_frame(rows) == by_frame(coded_model(trains=trains).transform(left))


@pytest.mark.slow
def test_late_and_duplicate_frames_of_a_stream(spark: SparkSession, frames: DataFrame, tmp_path: Path) -> None:
    left = frames.where("camera = 'left' AND t < 60")
    extra = spark.createDataFrame(
        [("left", 39.0, ROWS_LEFT[39]), ("left", 3.0, 5001), ("left", None, 5001)], left.schema
    )
    parts = [left.where("t < 40"), left.where("t >= 40").union(extra)]
    rows = run_stream(spark, coded_model(), parts, tmp_path).orderBy("t").collect()
    assert len(rows) == 63
    first, *others = rows
    assert (first["t"], first["prediction"], first["frame_error"]) == (None, None, "no time")
    same = [row for row in others if row["t"] == 39]
    assert len(same) == 2
    assert same[0] == same[1]
    late = [row for row in others if row["t"] == 3 and row["frame"] == 5001]
    assert [(row["prediction"], row["model"], row["phase"]) for row in late] == [("c5", "oracle", "late")]


ROWS_LEFT = CAMERAS["left"]

TYPES = {
    "long": "IF(t % 3 = 0, NULL, 1152921504606846977L + CAST(t AS LONG))",
    "short": "IF(t % 3 = 0, NULL, CAST(t AS SMALLINT))",
    "flag": "IF(t % 3 = 0, NULL, t > 5)",
    "single": "IF(t % 3 = 0, CAST('NaN' AS FLOAT), IF(t % 3 = 1, NULL, CAST(1.5 AS FLOAT)))",
    "none": "CAST(NULL AS INT)",
    "struct": "IF(t % 3 = 0, NULL, named_struct('x', 1L, 'in', named_struct('y', array(1, 2, NULL), 'z z', 'a')))",
    "structs": "array(named_struct('x', IF(t % 3 = 0, NULL, 1L)), NULL)",
    "instant": "IF(t % 3 = 0, NULL, TIMESTAMP'2024-06-01 12:00:00.123456Z')",
    "twice a year": "TIMESTAMP'2024-10-27 00:30:00Z'",
    "last day": "TIMESTAMP'9999-12-31 12:00:00'",
    "wall": "IF(t % 3 = 0, NULL, TIMESTAMP_NTZ'2024-03-31 02:30:00.000001')",
    "day": "IF(t % 3 = 0, NULL, DATE'2024-06-01')",
    "decimal": "IF(t % 3 = 0, NULL, CAST(1.10 AS DECIMAL(30, 4)))",
    "array": "IF(t % 3 = 0, NULL, array(1.5D, NULL))",
    "map": "IF(t % 3 = 0, NULL, map('k', 1))",
    "bytes": "IF(t % 3 = 0, NULL, X'00FF')",
    "class": "'a word of Python'",
    "a.b `c` d": "t",
    "__private": "t",
    "instants": "array(named_struct('when', TIMESTAMP'2024-10-27 00:30:00Z', 'x', IF(t % 3 = 0, NULL, 1L)), NULL)",
    "pause": "INTERVAL '1' DAY",
}


def test_columns_of_all_types_pass_through(spark: SparkSession, frames: DataFrame, tmp_path: Path) -> None:
    zone = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
    try:
        rows = frames.where("camera = 'left' AND t < 36").select(
            "*",
            *(F.expr(expression).alias(name) for name, expression in TYPES.items()),
            F.expr("transform(sequence(0, 11), k -> IF(k = frame DIV 1000, 0.78D, 0.02D))").alias("odds"),
            array_to_vector(F.array(F.lit(1.0), F.col("t"))).alias("vector", metadata={"ml": "kept"}),
        )
        model = coded_model(oracle="odds", labels=[(1 << 60) + place for place in range(CLASSES)], kind="bigint")
        expected = texts(rows)
        assert texts(model.transform(rows)) == expected
        streamed = run_stream(spark, model, [rows], tmp_path)
        assert texts(streamed) == expected
        assert by_frame(streamed) == by_frame(model.transform(rows)), "long labels beside a null"
        # Parquet files declare all fields nullable.
        kinds = {field.name: field.dataType.simpleString() for field in streamed.schema}
        assert kinds.items() >= {field.name: field.dataType.simpleString() for field in rows.schema}.items()
        assert model.transform(rows).schema["vector"].metadata == {"ml": "kept"}
    finally:
        spark.conf.set("spark.sql.session.timeZone", str(zone))


def texts(rows: DataFrame) -> list[Any]:
    names = [*TYPES, "vector"]
    quoted = [F.col("`" + name.replace("`", "``") + "`").cast("string") for name in names]
    return [tuple(row) for row in rows.orderBy("t").select("t", *quoted).collect()]


@pytest.mark.parametrize(
    ("kind", "labels"),
    [
        ("string", [f"c{place}" for place in range(CLASSES)]),
        ("int", [place * 7 for place in range(CLASSES)]),
        ("bigint", [(1 << 60) + place for place in range(CLASSES)]),
        ("double", [place / 2 for place in range(CLASSES)]),
        ("float", [place / 2 for place in range(CLASSES)]),
    ],
)
def test_labels_of_any_type(frames: DataFrame, batch: dict[Any, Any], kind: str, labels: list[Any]) -> None:
    rows = coded_model(labels=labels, kind=kind).transform(frames.where("t < 40"))
    assert rows.schema["prediction"].dataType.simpleString() == kind
    names = dict(zip(labels, (f"c{place}" for place in range(CLASSES)), strict=True))
    for key, row in by_frame(rows).items():
        assert (row[0], names.get(row[1]), *row[2:]) == batch[key]


@pytest.mark.parametrize(
    "order",
    [
        "CAST(t AS LONG)",
        "CAST(t AS DECIMAL(10, 2))",
        "timestamp_seconds(1730000000 + 60 * t)",
        "timestamp_seconds(60 * t) :: TIMESTAMP_NTZ",
    ],
)
def test_the_order_is_a_number_or_a_time(frames: DataFrame, batch: dict[Any, Any], order: str) -> None:
    part = frames.where("camera = 'left' AND t < 60").withColumn("a time", F.expr(order))
    labelled = coded_model().setOrderCol("a time").transform(part)
    assert by_frame(labelled) == {key: batch[key] for key in batch if key[0] == "left" and key[1] < 60}


def test_wall_clock_times_have_no_daylight_saving(spark: SparkSession, frames: DataFrame) -> None:
    zone = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
    try:
        # In Berlin, 02:30 did not exist on this day, and is 03:30 as an instant.
        wall = "TIMESTAMP_NTZ'2024-03-31 02:00:00' + make_dt_interval(0, 0, CAST(t AS INT))"
        part = frames.where("camera = 'left' AND t < 120").withColumn("wall", F.expr(wall))
        rows = coded_model().setOrderCol("wall").transform(part)
        assert by_frame(rows) == by_frame(coded_model().transform(part))
    finally:
        spark.conf.set("spark.sql.session.timeZone", str(zone))


def test_groups_are_numbers(frames: DataFrame) -> None:
    part = frames.where("t < 60").withColumn("place", F.expr("CASE camera WHEN 'left' THEN 7 WHEN '' THEN 8 END"))
    rows = coded_model().setGroupCol("place").transform(part)
    assert len(by_frame(rows)) == part.count()
    phases = {(row["place"], row["phase"]) for row in rows.collect()}
    assert {place for place, phase in phases if phase == "specialized"} == {7, 8, None}


def test_without_a_group_all_frames_are_of_one_stream(frames: DataFrame, batch: dict[Any, Any]) -> None:
    model = coded_model()
    model.clear(model.groupCol)
    left = frames.where("camera IS NULL")
    assert by_frame(model.transform(left)) == {key: row for key, row in batch.items() if key[0] is None}


def test_empty_tables_and_partitions(frames: DataFrame) -> None:
    model = coded_model()
    assert model.transform(frames.where("t < 0")).collect() == []
    assert model.transform(frames.where("camera = 'left' AND t < 3").repartition(8)).count() == 3


@pytest.mark.slow
def test_an_empty_stream(spark: SparkSession, frames: DataFrame, tmp_path: Path) -> None:
    assert run_stream(spark, coded_model(), [frames.where("t < 0")], tmp_path).count() == 0


@pytest.mark.slow
def test_several_queries_of_one_model_have_their_own_settings(
    spark: SparkSession, frames: DataFrame, tmp_path: Path
) -> None:
    model, part = coded_model(), frames.where("camera = 'left' AND t < 20")
    run_stream(spark, model, [part], tmp_path / "first")
    renamed = model.copy({model.groupCol: "place", model.outputCol: "answer"})
    rows = run_stream(spark, renamed, [part.withColumnRenamed("camera", "place")], tmp_path / "second")
    assert [row["answer"] for row in rows.orderBy("t").collect()] == [
        row["prediction"] for row in model.transform(part).orderBy("t").collect()
    ]


@pytest.mark.connect
@pytest.mark.skipif(not CONNECT, reason="a stream of Connect")
def test_a_stream_through_connect_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    spark.createDataFrame(ROWS[:3], "camera string, t double, frame long").write.parquet(str(tmp_path / "rows"))
    stream = spark.readStream.schema("camera string, t double, frame long").parquet(str(tmp_path / "rows"))
    with pytest.raises(InvalidArgumentError, match=r"stream of a classic session, got one of Spark Connect"):
        coded_model().transform(stream)


@pytest.mark.skipif(CONNECT, reason="a classic stream")
def test_a_stream_without_rocksdb_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    stream = spark.readStream.schema("camera string, t double, frame long").parquet(str(tmp_path))
    with pytest.raises(InvalidArgumentError, match=r"stateStore.providerClass must be RocksDB's.*got '.*HDFSBacked"):
        coded_model().transform(stream)
