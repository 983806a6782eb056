"""Arrow batches of decoded frames as Spark's image structs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from av.video.frame import VideoFrame

__all__ = ["IMAGE_SCHEMA", "PictureBatch", "output_size"]

IMAGE_SCHEMA = "struct<origin: string, height: int, width: int, nChannels: int, mode: int, data: binary>"
"""Spark's ``image`` struct."""

_BGR_MODE, _CHANNELS = 16, 3  # CV_8UC3

# A worker has about two batches in memory. Smaller ones take more time for each frame, because their pages are new.
_BATCH_BYTES = 8 << 20
_MOST_FRAMES = 256


def output_size(width: int, height: int, size: int | tuple[int, int] | None) -> tuple[int, int]:
    """Return the width and height of resized frames.

    Parameters
    ----------
    width, height : int
        Size of the video, in pixels.
    size : int or tuple of int, optional
        Length of the shorter side, which keeps the aspect ratio; or width and height.

    Examples
    --------
    >>> output_size(768, 576, 224), output_size(768, 576, (32, 24)), output_size(768, 576, None)
    ((298, 224), (32, 24), (768, 576))
    """
    if size is None:
        return width, height
    if isinstance(size, tuple):
        return size
    shorter = min(width, height)
    return max(1, width * size // shorter), max(1, height * size // shorter)


class PictureBatch:
    """Rows of frames of one size, whose pixels are copied once, into the buffer of an Arrow array.

    Parameters
    ----------
    camera, origin : str
        Values of all rows.
    explains : bool
        Whether batches have the column ``frame_error``.
    """

    def __init__(self, camera: str, origin: str, *, explains: bool) -> None:
        self._camera, self._origin, self._explains = camera, origin, explains
        self._clear()

    def _clear(self) -> None:
        self._times: list[float | None] = []
        self._reasons: list[str | None] = []
        self._size: tuple[int, int] | None = None
        self._pixels: np.ndarray[Any, np.dtype[np.uint8]] = np.empty((0, 0, 0), np.uint8)
        self._count = 0

    def __len__(self) -> int:
        return len(self._times)

    def is_full(self, width: int, height: int) -> bool:
        """Return whether the batch has no room for another frame of this size."""
        if len(self._times) >= _MOST_FRAMES:
            return True
        return self._size is not None and (self._size != (width, height) or self._count == len(self._pixels))

    def append(self, time: float | None, frame: VideoFrame) -> None:
        """Append a frame in the format ``bgr24``."""
        width, height = frame.width, frame.height
        if self._size is None:
            self._size = (width, height)
            room = min(_MOST_FRAMES, max(1, _BATCH_BYTES // (width * height * _CHANNELS)))
            self._pixels = np.empty((room, height, width * _CHANNELS), np.uint8)
        plane = frame.planes[0]
        lines = np.frombuffer(plane, np.uint8).reshape(height, -1)  # type: ignore[call-overload]
        self._pixels[self._count] = lines[:, : width * _CHANNELS]
        self._count += 1
        self._times.append(time)
        self._reasons.append(None)

    def append_error(self, time: float | None, reason: str) -> None:
        """Append a row without a frame."""
        self._times.append(time)
        self._reasons.append(reason)

    def finish(self) -> pa.RecordBatch:
        """Return the rows, and begin a new batch."""
        width, height = self._size or (0, 0)
        is_bad = np.array([reason is not None for reason in self._reasons], bool)
        lengths = np.where(is_bad, 0, width * height * _CHANNELS)
        offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(self._pixels.reshape(-1))]
        rows = len(self._times)
        values = {
            "origin": pa.array([self._origin] * rows, pa.string()),
            "height": _repeated(height, rows),
            "width": _repeated(width, rows),
            "nChannels": _repeated(_CHANNELS, rows),
            "mode": _repeated(_BGR_MODE, rows),
            "data": pa.Array.from_buffers(pa.binary(), rows, buffers),
        }
        frames = pa.StructArray.from_arrays(list(values.values()), list(values), mask=pa.array(is_bad))
        columns = {
            "camera": pa.array([self._camera] * rows, pa.string()),
            "t": pa.array(self._times, pa.float64()),
            "frame": frames,
        }
        if self._explains:
            columns["frame_error"] = pa.array(self._reasons, pa.string())
        self._clear()
        return pa.RecordBatch.from_arrays(list(columns.values()), list(columns))


def _repeated(value: int, rows: int) -> pa.Array:
    return pa.array(np.full(rows, value, np.int32))
