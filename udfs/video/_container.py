"""Open the video stream of a file with PyAV."""

from __future__ import annotations

import contextlib
import errno
import io
from typing import TYPE_CHECKING, Any

from udfs.images import ImageError, open_file
from udfs.video._errors import VideoError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from av.container import InputContainer
    from av.packet import Packet
    from av.video.stream import VideoStream

__all__ = ["import_av", "open_video", "packets", "refuse"]

# Errors of a disk or a connection, which a new attempt of the task may not meet.
_TRANSIENT = {errno.EIO, errno.ENOMEM, errno.ESTALE, errno.ETIMEDOUT}


def import_av() -> Any:
    """Import PyAV.

    Raises
    ------
    ImportError
        PyAV is not installed; the message has the command that installs it.
    """
    try:
        import av
    except ImportError as error:
        raise ImportError(
            "video.read needs PyAV where the Spark workers run: pip install 'cerebro-spark[video]'"
        ) from error
    return av


@contextlib.contextmanager
def open_video(path: str) -> Iterator[tuple[InputContainer, VideoStream]]:
    """Open a file and its best video stream, which decodes on one thread.

    Parameters
    ----------
    path : str
        Path or URI, as :func:`udfs.images.open_file` opens it.

    Raises
    ------
    VideoError
        There is no such file, or it is not a video.
    """
    av = import_av()
    try:
        file = open_file(path)
    except ImageError as error:
        raise VideoError(error.reason, path) from error
    with file:
        try:
            # FFmpeg reads a local file faster by its name than through Python.
            local = isinstance(file, io.BufferedReader)
            container = av.open(file.name if local else file, metadata_errors="ignore")
        except av.FFmpegError as error:
            raise refuse(error, "truncated or corrupt video file", path) from error
        with container:
            stream = container.streams.best("video")
            if stream is None:
                raise VideoError("file without a video stream", path)
            stream.thread_count = 1  # a task has one core
            yield container, stream


def packets(container: InputContainer, stream: VideoStream, path: str) -> Iterator[Packet[VideoStream]]:
    """Read the packets of a stream in the order of decoding; the last one is empty and flushes the decoder.

    Raises
    ------
    VideoError
        The file ends too early or is corrupt; all packets before are read.
    """
    try:
        yield from container.demux(stream)
    except import_av().FFmpegError as error:
        raise refuse(error, "truncated or corrupt video file", path) from error


def refuse(error: Any, reason: str, detail: str) -> VideoError:
    """Return the error of a bad file or frame; raise FFmpeg's error if a new attempt may succeed."""
    if error.errno in _TRANSIENT:
        raise error
    return VideoError(reason, f"{detail} ({error.strerror})")
