"""Segments of a file: together they are the frames of one decoder that reads the whole file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from videos import REAL_VIDEOS, encode_clip, plain_frames, real_video, scene

from udfs.video import Sampling, decode, divide

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from udfs.video import Segment

pytest.importorskip("av")

_ALL = Sampling()

# Groups of 20 pictures; open ones have leading pictures that refer to both neighbours.
_CLOSED = {"g": "20", "bf": "3", "x264-params": "scenecut=0:open-gop=0"}
_OPEN = {"g": "20", "bf": "3", "x264-params": "scenecut=0:open-gop=1:b-adapt=0"}
_CLIPS = {
    "closed.mp4": ("libx264", _CLOSED),
    "closed.mkv": ("libx264", _CLOSED),
    "open.ts": ("libx264", _OPEN),
    "open.mkv": ("libx264", _OPEN),
    "hevc.mp4": ("libx265", {"x265-params": "keyint=20:bframes=3:open-gop=1:scenecut=0:log-level=none"}),
    "mpeg2.ts": ("mpeg2video", {"g": "15", "bf": "2"}),
    "mpeg4.avi": ("mpeg4", {"g": "12", "bf": "2"}),
    "vp8.webm": ("libvpx", {"g": "20", "auto-alt-ref": "1", "lag-in-frames": "10"}),
    "vp9.webm": ("libvpx-vp9", {"g": "20", "auto-alt-ref": "1", "lag-in-frames": "10"}),
    "refresh.ts": ("libx264", {"g": "20", "x264-params": "intra-refresh=1:bframes=0"}),
    "raw.h264": ("libx264", _CLOSED),
    "mjpeg.avi": ("mjpeg", {}),
}


@pytest.fixture(autouse=True)
def _short_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    """Begin a segment at each key frame."""
    monkeypatch.setattr("udfs.video._segments._LEAST_PACKETS", 1)


def decoded(path: Path, segments: Sequence[Segment], sampling: Sampling = _ALL) -> list[tuple[float, bytes]]:
    frames: list[tuple[float, Any]] = []
    for segment in segments:
        frames += [(time, pixels_of(picture)) for time, picture in decode(str(path), segment, sampling)]
    return frames


def pixels_of(picture: Any) -> bytes:
    return bytes(picture.reformat(format="bgr24").to_ndarray().tobytes())


@pytest.mark.parametrize("name", [*REAL_VIDEOS, *_CLIPS])
def test_segments_are_the_frames_of_a_plain_loop(name: str, tmp_path: Path) -> None:
    if name in _CLIPS:
        codec, options = _CLIPS[name]
        path = encode_clip(tmp_path / name, scene(70), codec, options)
    else:
        path = real_video(name)
    segments = divide(str(path), Sampling())
    frames = decoded(path, segments)
    expected = plain_frames(path)
    assert [pixels for _, pixels in frames] == [pixels for _, pixels in expected]
    if name != "raw.h264":  # has no time stamps
        assert [time for time, _ in frames] == pytest.approx([time for time, _ in expected], abs=1e-9)
    if name not in {"raw.h264", "mpeg4.avi", "carphone_pristine.mp4", "bigbuckbunny.mp4"}:
        assert len(segments) > 2
    # A segment is decoded alone, by another task.
    assert decoded(path, segments[-1:]) == frames[len(frames) - len(decoded(path, segments[-1:])) :]
