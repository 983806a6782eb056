"""``video.read``: frames of video files, decoded in tasks."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from optimizer.arguments import one_of, real, whole, whole_or_none
from udfs.arrow import ERROR_POLICIES, ErrorPolicy
from udfs.driver import task_slots, validate_arguments
from udfs.video import ENDINGS, IMAGE_SCHEMA, SEGMENT_SCHEMA, Frames, Sampling, Segments
from vista_spark.errors import InvalidArgumentError
from vista_spark.files import path_below, without_ending

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

__all__ = ["read"]

_FILE_SCHEMA = "path string, modificationTime timestamp, length bigint, content binary"
_PATTERN_CHARACTERS = set("*?[{")
# Rational numbers such as 30000/1001 survive the way through a float.
_LARGEST_DENOMINATOR = 1_000_000
# Segments differ in length: several partitions for each slot balance the tasks.
_PARTITIONS_PER_SLOT = 4


@validate_arguments
def read(
    spark: SparkSession,
    path: str,
    *,
    fps: float | None = None,
    size: int | tuple[int, int] | None = None,
    stream: bool = False,
    errors: ErrorPolicy = "raise",
    limit: int | None = None,
    files_per_batch: int | None = None,
) -> DataFrame:
    """Read video files as a DataFrame with one row per frame.

    Tasks divide files at key frames and decode the segments in parallel with PyAV. The frames are those of one decoder
    that reads the whole file. File contents do not pass through Spark; frames are resized before they do.

    Parameters
    ----------
    spark : SparkSession
        Session, classic or Spark Connect.
    path : str
        Folder, which is searched at any depth, file, or pattern. In a folder, files with the usual endings of videos
        are read. Local paths and all URIs that both Spark and `pyarrow.fs` read.
    fps : float, optional
        Frames per second: the first frame at or after each multiple of ``1 / fps`` seconds. By default all frames.
    size : int or tuple of int, optional
        Length of the shorter side, which keeps the aspect ratio, or ``(width, height)``, in pixels. By default the size
        of the video.
    stream : bool
        Return a streaming DataFrame that reads files as they are moved into the folder. Default ``False``.
    errors : {"raise", "null", "drop"}
        Policy for files and frames that cannot be decoded: a failed job, whose error names the path (default); a row
        without a frame, with the reason in the column ``frame_error``; or no row.
    limit : int, optional
        Largest number of frames of each file. Decoding stops there. Corrupt frames count.
    files_per_batch : int, optional
        With ``stream=True``, largest number of files of a micro-batch; no limit by default.

    Returns
    -------
    DataFrame
        * ``camera`` (string): path of the file below `path` without its ending; of a single file, its name. Files of a
          local folder that differ only in their endings are refused.
        * ``t`` (double): seconds since the first frame of the file, by presentation time stamps.
        * ``frame`` (struct): Spark's image struct, 8-bit BGR, as :class:`vista_spark.CNNFeaturizer` and Spark's image
          source have it; its ``origin`` is the path of the file.
        * ``frame_error`` (string, only with ``errors="null"``): one of :data:`udfs.video.VIDEO_REASONS`, or null.

        Rows are in no order: sort by ``camera`` and ``t``.

    Raises
    ------
    InvalidArgumentError
        An argument is out of its range.
    udfs.video.VideoError
        When a job runs: a file or a frame cannot be decoded, with ``errors="raise"``.

    Examples
    --------
    >>> from vista_spark import video
    >>> frames = video.read(spark, "cameras/", fps=6, size=224)  # doctest: +SKIP
    >>> frames.groupBy("camera").count().show()  # doctest: +SKIP
    """
    sampling = Sampling(None if fps is None else _rate(fps), whole_or_none("limit", limit))
    one_of("errors", errors, ERROR_POLICIES)
    _check_size(size)
    whole_or_none("files_per_batch", files_per_batch)
    if files_per_batch is not None and not stream:
        raise InvalidArgumentError(f"files_per_batch must be None without stream=True, got {files_per_batch!r}.")
    files = _files(spark, path, stream=stream, files_per_batch=files_per_batch)
    segments = files.mapInArrow(Segments(sampling, errors), SEGMENT_SCHEMA)
    schema = f"camera string, t double, frame {IMAGE_SCHEMA}" + (", frame_error string" if errors == "null" else "")
    spread = segments.repartition(_PARTITIONS_PER_SLOT * task_slots(spark))
    return spread.mapInArrow(Frames(sampling, size, errors), schema)


def _rate(fps: float) -> Fraction:
    rate = Fraction(real("fps", fps, 0, above=True)).limit_denominator(_LARGEST_DENOMINATOR)
    if not rate:
        raise InvalidArgumentError(f"fps must be at least {1 / _LARGEST_DENOMINATOR:g}, got {fps!r}.")
    return rate


def _check_size(size: int | tuple[int, int] | None) -> None:
    if isinstance(size, tuple):
        if len(size) != 2:
            raise InvalidArgumentError(f"size must be an integer or a pair (width, height), got {size!r}.")
        for length in size:
            whole("size", length)
    else:
        whole_or_none("size", size)


def _files(spark: SparkSession, path: str, *, stream: bool, files_per_batch: int | None) -> DataFrame:
    """List the files in the columns ``path`` and ``camera``. Spark does not read a content that no column needs."""
    reader = spark.readStream.schema(_FILE_SCHEMA) if stream else spark.read
    reader = reader.format("binaryFile").option("recursiveFileLookup", "true")
    if files_per_batch is not None:
        reader = reader.option("maxFilesPerTrigger", files_per_batch)
    files = reader.load(path).select("path")
    name = path.rstrip("/").rpartition("/")[2]
    if not set(name) & _PATTERN_CHARACTERS:
        is_video = F.col("path").rlike(rf"(?i)\.({'|'.join(ENDINGS)})$")
        files = files.where(is_video | F.col("path").endswith(f"/{name}"))
    return files.select("path", _camera(path).alias("camera"))


def _camera(path: str) -> Column:
    below = path_below(path)
    name = F.when(below == F.col("path"), F.substring_index("path", "/", -1)).otherwise(below)
    return without_ending(name)
