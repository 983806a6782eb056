"""Error of a bad video file or frame."""

from __future__ import annotations

from udfs.arrow import RowError

__all__ = ["VIDEO_REASONS", "VideoError"]

VIDEO_REASONS = (
    "no such file",
    "no permission to read the file",
    "no file system for the URI",
    "file without a video stream",
    "truncated or corrupt video file",
    "truncated or corrupt frame",
)
"""All reasons for which a video file or a frame is bad. The path, the time and the decoder's message are details."""


class VideoError(RowError):
    """A video file that cannot be read, or a frame that cannot be decoded."""
