"""``video.read``: rows of Spark against a plain PyAV loop."""

from __future__ import annotations

import contextlib
import io
import re
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from PIL import Image
from videos import encode_clip, plain_frames, real_video, scene

from udfs.images import open_rgb
from vista_spark import video
from vista_spark.errors import InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pyspark.sql import Row, SparkSession

pytest.importorskip("av")
pytestmark = pytest.mark.connect

_OPTIONS = {"g": "20", "bf": "2", "x264-params": "scenecut=0"}


@pytest.fixture(scope="module")
def cameras(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Videos of two sizes in a tree of folders, and a file that is none."""
    folder = tmp_path_factory.mktemp("cameras")
    (folder / "north gate").mkdir()
    encode_clip(folder / "door.1.mp4", scene(150, seed=1), options=_OPTIONS)
    encode_clip(folder / "north gate" / "door.mkv", scene(30, (64, 80), seed=2), options=_OPTIONS)
    (folder / "notes.txt").write_text("no video")
    return folder


def frames_of(rows: Sequence[Row], camera: str) -> list[tuple[float, bytes]]:
    return [(row.t, bytes(row.frame.data)) for row in rows if row.camera == camera]


def test_rows_are_the_frames_of_each_file(spark: SparkSession, cameras: Path) -> None:
    rows = video.read(spark, str(cameras)).orderBy("camera", "t").collect()
    assert {row.camera for row in rows} == {"door.1", "north gate/door"}
    for camera, file, size in (
        ("door.1", "door.1.mp4", (96, 64)),
        ("north gate/door", "north gate/door.mkv", (64, 80)),
    ):
        expected = plain_frames(cameras / file)
        frames = frames_of(rows, camera)
        assert [pixels for _, pixels in frames] == [pixels for _, pixels in expected]
        assert [time for time, _ in frames] == pytest.approx([time for time, _ in expected], abs=1e-9)
        frame = next(row.frame for row in rows if row.camera == camera)
        assert (frame.width, frame.height, frame.nChannels, frame.mode) == (*size, 3, 16)
        assert frame.origin.endswith(file)


def test_the_images_are_those_of_the_project(spark: SparkSession, cameras: Path) -> None:
    """The square is red: channels are in the order that featurizers expect."""
    row = video.read(spark, str(cameras / "door.1.mp4"), limit=1).first()
    assert row is not None
    assert row.camera == "door.1"
    picture = open_rgb(row.frame.asDict())
    assert np.abs(np.asarray(picture.crop((2, 22, 14, 34)), float).mean(axis=(0, 1)) - (255, 0, 0)).max() < 12


def test_frames_are_sampled_limited_and_resized(spark: SparkSession, cameras: Path) -> None:
    rows = video.read(spark, f"{cameras}/*.mp4", fps=2.5, limit=10, size=32).orderBy("t").collect()
    assert [row.t for row in rows] == pytest.approx([number * 0.4 for number in range(10)])
    expected = plain_frames(cameras / "door.1.mp4", (48, 32))[::10][:10]
    assert [bytes(row.frame.data) for row in rows] == [pixels for _, pixels in expected]
    row = video.read(spark, str(cameras), size=(20, 10), limit=1).first()
    assert row is not None
    assert (row.frame.width, row.frame.height, len(row.frame.data)) == (20, 10, 600)


def test_bad_files_and_frames_follow_the_policy(spark: SparkSession, tmp_path: Path) -> None:
    path = encode_clip(tmp_path / "short.avi", scene(40), "mjpeg")
    path.write_bytes(path.read_bytes()[:-30000])
    (tmp_path / "broken.mp4").write_bytes(b"no video")
    rows = video.read(spark, str(tmp_path), errors="null").orderBy("camera", "t").collect()
    assert [(row.camera, row.t, row.frame, row.frame_error) for row in rows if row.camera == "broken"] == [
        ("broken", None, None, "truncated or corrupt video file")
    ]
    reasons = [row.frame_error for row in rows if row.camera == "short"]
    good = sum(reason is None for reason in reasons)
    assert 10 < good < 40
    assert 1 <= len(reasons) - good <= 2
    dropped = video.read(spark, str(tmp_path), errors="drop")
    assert dropped.columns == ["camera", "t", "frame"]
    assert dropped.count() == good
    with pytest.raises(Exception, match=r"truncated or corrupt.*(broken\.mp4|short\.avi)"):
        video.read(spark, str(tmp_path)).count()


def test_contents_do_not_pass_through_spark(spark: SparkSession, cameras: Path) -> None:
    plan = io.StringIO()
    with contextlib.redirect_stdout(plan):
        video.read(spark, str(cameras)).explain()
    assert re.findall(r"ReadSchema: (\S+)", plan.getvalue()) == ["struct<path:string>"]


def test_files_that_would_share_a_camera_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    for name in ("door.mp4", "door.avi", "gate.mp4"):
        encode_clip(tmp_path / name, scene(3), "mjpeg")
    with pytest.raises(Exception, match=r"door\.avi and door\.mp4"):
        video.read(spark, str(tmp_path)).count()
    (tmp_path / "door.avi").rename(tmp_path / "window.avi")
    assert video.read(spark, str(tmp_path)).select("camera").distinct().count() == 3


def test_a_stream_reads_new_files(spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    clip = encode_clip(tmp_path / "clip.mp4", scene(30), options=_OPTIONS)
    frames = video.read(spark, str(folder), stream=True, size=16, files_per_batch=1)
    assert frames.isStreaming

    def process(names: Sequence[str]) -> dict[str, int]:
        for name in names:
            (folder / name).hardlink_to(clip)
        query = (
            frames.select("camera", "t")
            .writeStream.format("parquet")
            .option("path", str(tmp_path / "out"))
            .option("checkpointLocation", str(tmp_path / "state"))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(120)
        rows = spark.read.parquet(str(tmp_path / "out")).groupBy("camera").count().collect()
        return {row["camera"]: row["count"] for row in rows}

    assert process(["a.mp4", "b.mp4"]) == {"a": 30, "b": 30}
    assert process(["c.mp4"]) == {"a": 30, "b": 30, "c": 30}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"fps": 0}, "fps must be a number above 0"),
        ({"fps": 1e-9}, "fps must be at least"),
        ({"size": 0}, "size must be a whole number"),
        ({"size": (10, 10, 3)}, "size must be an integer or a pair"),
        ({"size": (10, -1)}, "size must be a whole number"),
        ({"limit": 0}, "limit must be a whole number"),
        ({"errors": "skip"}, "errors must be one of raise, null, drop"),
        ({"files_per_batch": 2}, "files_per_batch must be None without stream"),
        ({"rate": 5}, "no parameter 'rate'"),
    ],
)
def test_wrong_arguments_are_refused(spark: SparkSession, options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        video.read(spark, "cameras/", **options)


def test_real_pedestrians(spark: SparkSession) -> None:
    path = real_video("vtest.avi")
    rows = video.read(spark, str(path), fps=1, size=(192, 144)).orderBy("t").collect()
    assert [row.t for row in rows] == pytest.approx([float(number) for number in range(80)])
    whole = Image.frombytes("RGB", (768, 576), plain_frames(path)[100][1]).resize((192, 144), Image.Resampling.BOX)
    pixels = np.frombuffer(rows[10].frame.data, np.uint8).reshape(144, 192, 3)
    assert np.abs(np.asarray(whole, float) - pixels).mean() < 3
