"""Tasks that divide video files into segments and decode them: functions for ``mapInArrow``."""

from __future__ import annotations

from dataclasses import astuple, dataclass, fields
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from udfs.video._container import import_av
from udfs.video._decoding import decode
from udfs.video._errors import VideoError
from udfs.video._names import check_name
from udfs.video._pictures import PictureBatch, output_size
from udfs.video._segments import Segment, divide

if TYPE_CHECKING:
    from collections.abc import Iterator

    from av.video.frame import VideoFrame

    from udfs.arrow import ErrorPolicy
    from udfs.video._sampling import Sampling

__all__ = ["SEGMENT_SCHEMA", "Frames", "Segments"]

_SEGMENT_FIELDS = tuple(field.name for field in fields(Segment))
SEGMENT_SCHEMA = f"path string, camera string, {', '.join(f'`{name}` long' for name in _SEGMENT_FIELDS)}, reason string"
"""Columns of :class:`Segments`."""


@dataclass(frozen=True, slots=True)
class Segments:
    """Division of files into segments. Call it with ``mapInArrow`` on the columns ``path`` and ``camera``.

    Parameters
    ----------
    sampling : Sampling
        Choice of frames.
    errors : {"raise", "null", "drop"}
        Policy for a file that is no video.

    Raises
    ------
    VideoError
        A file cannot be read, with ``errors="raise"``.
    InvalidArgumentError
        Two files would be the same camera.
    """

    sampling: Sampling
    errors: ErrorPolicy = "raise"

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield a row for each segment, and one with an error for each bad file."""
        for batch in batches:
            for row in batch.to_pylist():
                yield self._rows(row["path"], row["camera"])

    def _rows(self, path: str, camera: str) -> pa.RecordBatch:
        check_name(path)
        rows: list[tuple[Any, ...]]
        try:
            rows = [(*astuple(segment), None) for segment in divide(path, self.sampling)]
        except VideoError as error:
            if self.errors == "raise":
                raise _explained(error, None) from error
            rows = [(None,) * len(_SEGMENT_FIELDS) + (error.reason,)] if self.errors == "null" else []
        columns = list(zip(*((path, camera, *row) for row in rows), strict=True)) or [()] * (len(_SEGMENT_FIELDS) + 3)
        kinds = [pa.string(), pa.string(), *[pa.int64()] * len(_SEGMENT_FIELDS), pa.string()]
        arrays = [pa.array(column, kind) for column, kind in zip(columns, kinds, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, ["path", "camera", *_SEGMENT_FIELDS, "reason"])


@dataclass(frozen=True, slots=True)
class Frames:
    """Decoding of segments. Call it with ``mapInArrow`` on rows of :class:`Segments`.

    Parameters
    ----------
    sampling : Sampling
        Choice of frames.
    size : int or tuple of int, optional
        Length of the shorter side, or width and height, in pixels; the size of the video by default.
    errors : {"raise", "null", "drop"}
        Policy for a corrupt frame, and for a file that ends too early.

    Raises
    ------
    VideoError
        A frame cannot be decoded, with ``errors="raise"``.
    """

    sampling: Sampling
    size: int | tuple[int, int] | None = None
    errors: ErrorPolicy = "raise"

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield small batches of frames: ``camera``, ``t``, ``frame``, and ``frame_error`` with ``errors="null"``."""
        for batch in batches:
            for row in batch.to_pylist():
                yield from self._batches(row)

    def _batches(self, row: dict[str, Any]) -> Iterator[pa.RecordBatch]:
        path = row["path"]
        batch = PictureBatch(row["camera"], path, explains=self.errors == "null")
        if row["reason"] is not None:
            batch.append_error(None, row["reason"])
            yield batch.finish()
            return
        reformatter = import_av().video.reformatter.VideoReformatter()
        segment = Segment(**{name: row[name] for name in _SEGMENT_FIELDS})
        for time, picture in self._pictures(path, segment):
            if isinstance(picture, VideoError):
                if self.errors == "raise":
                    raise _explained(picture, time) from picture
                if self.errors == "null":
                    batch.append_error(time, picture.reason)
                continue
            width, height = output_size(picture.width, picture.height, self.size)
            if batch.is_full(width, height):
                yield batch.finish()
            batch.append(time, reformatter.reformat(picture, width, height, "bgr24", threads=1))
        if len(batch):
            yield batch.finish()

    def _pictures(self, path: str, segment: Segment) -> Iterator[tuple[float | None, VideoFrame | VideoError]]:
        try:
            yield from decode(path, segment, self.sampling)
        except VideoError as error:
            yield None, error


def _explained(error: VideoError, time: float | None) -> VideoError:
    place = "" if time is None else f", {time:.3f} s after its start"
    return VideoError(
        error.reason, f'{error.detail}{place}. errors="null" keeps such rows with the reason, errors="drop" omits them.'
    )
