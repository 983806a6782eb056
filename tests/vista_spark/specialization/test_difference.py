"""Param `difference` and its choice, over pictures of one colour."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("torch")

from coded_frames import CodedFeatures, CodedScores, Pictured, picture, repeats_within
from coded_models import coded_model, run_stream
from pyspark.sql import functions as F

from udfs.specialization import STREAM, TIME
from vista_spark import SpecializedClassifier
from vista_spark.errors import CerebroError, ColumnError, EmptyInputError, InvalidArgumentError
from vista_spark.specialization._difference import frame_pairs

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from vista_spark import SpecializedModel

    NoJob = Callable[[], AbstractContextManager[None]]

SCHEMA = (
    "camera string, t double, frame struct<origin: string, height: int, width: int, nChannels: int, mode: int, "
    "data: binary>"
)
# Two cameras with scenes of 60 frames: within a scene, frames differ by at most 3 in a channel, or 3 squared levels.
CODES = [1000 * (place // 60 % 2 * 11) + 100 + place % 4 for place in range(240)]


def model(oracle: Any = None) -> SpecializedModel:
    return coded_model(Pictured(CodedFeatures()), oracle=oracle or Pictured(CodedScores()))  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def frames(spark: SparkSession) -> DataFrame:
    rows = [(camera, float(place), picture(code)) for camera in "ab" for place, code in enumerate(CODES)]
    return spark.createDataFrame(rows, SCHEMA).repartition(2).cache()


def answers(labelled: DataFrame) -> list[tuple[Any, ...]]:
    columns = ("camera", "t", "prediction", "model", "phase", "frame_error")
    return [tuple(row) for row in labelled.select(*columns).orderBy("camera", "t").collect()]


def test_pairs_are_of_a_stream_and_some_frames_apart(frames: DataFrame) -> None:
    ordered = frames.select(F.col("camera").alias(STREAM), F.col("t").alias(TIME), F.struct("camera", "t").alias("at"))
    pairs = [(row["frame"], row["reference"]) for row in frame_pairs(ordered, F.col("at"), 300, 1).collect()]
    assert 220 < len(pairs) < 320
    assert {frame["camera"] == reference["camera"] for frame, reference in pairs} == {True}
    assert {frame["t"] - reference["t"] for frame, reference in pairs} == {1, 2, 4, 8, 16, 32}
    assert len(set(pairs)) == len(pairs)


def test_the_difference_within_a_scene_is_chosen(frames: DataFrame) -> None:
    assert model().choose_difference(frames, pairs=480) == pytest.approx(3.0, rel=1e-5)
    # The oracle sees another class in the lightest frames, and all pairs with such a frame differ.
    strict = model(Pictured(CodedScores(wrong=0.103))).choose_difference(frames, pairs=480)
    assert strict == 0.0


def test_too_few_pairs_have_no_difference(frames: DataFrame) -> None:
    few = frames.where("camera = 'a' AND t < 60")
    assert model().choose_difference(few, pairs=1000) is None
    assert model().choose_difference(few, pairs=1000, target=0.8) == pytest.approx(3.0, rel=1e-5)


def test_frames_without_pairs_are_refused(spark: SparkSession, frames: DataFrame) -> None:
    for rows in (frames.where("t < 1"), frames.withColumn("frame", F.lit(None).cast(frames.schema["frame"].dataType))):
        with pytest.raises(EmptyInputError, match="frames must have pairs that the oracle answers, got none"):
            model().choose_difference(rows)


@pytest.mark.parametrize(
    ("columns", "params", "message"),
    [
        ({"frame": "CAST(t AS INT)"}, {}, r"column 'frame' of frames must be an image"),
        ({"frame": "array(1.0D)"}, {}, r"column 'frame' of frames must be .*image.* got array<double>"),
        ({"frame": "array(frame)"}, {}, r"column 'frame' of frames must be .*image.* got array<struct"),
        ({}, {"inputCol": "frames"}, r"frames has no column 'frames'; did you mean 'frame'"),
        ({}, {"orderCol": "time"}, r"frames has no column 'time'"),
        ({}, {"groupCol": "cam"}, r"frames has no column 'cam'"),
    ],
)
def test_columns_are_refused_before_a_job(
    frames: DataFrame, no_job: NoJob, columns: dict[str, str], params: dict[str, str], message: str
) -> None:
    rows = frames.withColumns({name: F.expr(value) for name, value in columns.items()})
    made = model()._set(**({"difference": 1.0} | params))
    with no_job(), pytest.raises(ColumnError, match=message):
        made.choose_difference(rows)
    with no_job(), pytest.raises(ColumnError, match=message):
        made.transform(rows)


@pytest.mark.parametrize(
    ("settings", "name"),
    [({"target": 1.0}, "target"), ({"target": 0.0}, "target"), ({"delta": 1.0}, "delta"), ({"pairs": 0}, "pairs")],
)
def test_settings_are_refused_before_a_job(
    frames: DataFrame, no_job: NoJob, settings: dict[str, Any], name: str
) -> None:
    with no_job(), pytest.raises(CerebroError, match=rf"{name} must be "):
        model().choose_difference(frames, **settings)


def test_a_stream_and_an_oracle_of_scores_are_refused(spark: SparkSession, frames: DataFrame, no_job: NoJob) -> None:
    stream = spark.readStream.format("rate").load().selectExpr("X'00' AS frame", "value AS t", "'a' AS camera")
    with no_job(), pytest.raises(InvalidArgumentError, match="frames must be a table, got a stream"):
        model().choose_difference(stream)
    scored = frames.withColumn("odds", F.array(F.lit(0.4), F.lit(0.6)))
    with no_job(), pytest.raises(InvalidArgumentError, match=r"the oracle must read .*'frame'.* got odds"):
        model("odds").choose_difference(scored)


@pytest.mark.parametrize("value", [-1.0, float("nan"), float("inf"), "much"])
def test_wrong_values_are_refused(value: Any) -> None:
    made = model()
    with pytest.raises(TypeError, match="difference"):
        made.setDifference(value)
    with pytest.raises(TypeError, match="difference"):
        SpecializedClassifier(difference=value)
    assert made.getDifference() is None
    assert made.setDifference(0).getDifference() == 0.0


@pytest.fixture(scope="module")
def part(frames: DataFrame) -> DataFrame:
    return frames.where("(camera = 'a' AND t < 150) OR t < 9")


@pytest.fixture(scope="module")
def repeated(part: DataFrame) -> list[tuple[Any, ...]]:
    return answers(model().setDifference(3.0).transform(part))


def test_a_frame_of_a_table_repeats_the_last_other_frame_of_its_camera(
    part: DataFrame, repeated: list[tuple[Any, ...]]
) -> None:
    repeats, reference, times = repeats_within(3.0), 0, 0
    for (camera, place, answer, _, phase, reason), code in zip(repeated, CODES[:150] + CODES[:9], strict=True):
        is_repetition = place > 0 and times < 32 and repeats(reference, code)
        assert (phase == "repeat") == is_repetition, (camera, place)
        reference, times = (reference, times + 1) if is_repetition else (code, 0)
        assert (answer, reason) == (f"c{code // 1000}", None)
    assert "repeat" not in {row[4] for row in answers(model().transform(part))}
    made = model().setDifference(0.5)
    assert answers(made.copy({made.difference: 3.0}).transform(part)) == repeated
    assert answers(made.transform(part)) != repeated


@pytest.mark.slow
def test_a_stream_repeats_the_frames_of_the_table(
    spark: SparkSession, part: DataFrame, repeated: list[tuple[Any, ...]], tmp_path: Path
) -> None:
    parts = [part.where("t < 70"), part.where("t >= 70")]
    assert answers(run_stream(spark, model().setDifference(3.0), parts, tmp_path)) == repeated
