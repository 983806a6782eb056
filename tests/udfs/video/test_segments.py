"""Segments of a file: together they are the frames of one decoder that reads the whole file."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import numpy as np
import pytest
from pyarrow import fs
from videos import REAL_VIDEOS, encode_clip, plain_frames, real_video, scene

from udfs.video import VIDEO_REASONS, Sampling, VideoError, decode, divide
from udfs.video._segments import _Packets, _segments

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from udfs.video import Segment

av = pytest.importorskip("av")

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


def test_segments_cover_short_groups(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("udfs.video._segments._LEAST_PACKETS", 30)
    path = encode_clip(tmp_path / "clip.mp4", scene(70), "libx264", _CLOSED)
    assert [segment.start for segment in divide(str(path), _ALL)] == [None, 40 * 512]


def variable_rate(tmp_path: Path) -> Path:
    """60 frames, of which some come after 1.5 s, and some in bursts."""
    gaps = np.random.default_rng(3).choice([2, 3, 10, 150], 60, p=[0.4, 0.4, 0.15, 0.05])
    stamps = [int(stamp) for stamp in np.cumsum(gaps)]
    options = {"g": "10", "bf": "2", "x264-params": "scenecut=0"}
    return encode_clip(tmp_path / "variable.mkv", scene(60), "libx264", options, stamps=stamps)


@pytest.mark.parametrize("least", [1, 25, 1000])
@pytest.mark.parametrize("fps", [0.5, 3, 7.5, 100])
def test_sampling_does_not_depend_on_segments(
    fps: float, least: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("udfs.video._segments._LEAST_PACKETS", least)
    path = variable_rate(tmp_path)
    plain = plain_frames(path)
    # The first frame at or after each multiple of 1 / fps, with a tolerance far below a time stamp's unit.
    wanted, number = [], 0
    for time, pixels in plain:
        if time * fps >= number - 1e-6:
            wanted.append((time, pixels))
            number = math.floor(time * fps + 1e-6) + 1
    assert 1 < len(wanted) <= len(plain)
    for limit in (None, 1, 5, 13):
        sampling = Sampling(Fraction(fps), limit)
        frames = decoded(path, divide(str(path), sampling), sampling)
        assert [pixels for _, pixels in frames] == [pixels for _, pixels in wanted[:limit]]
        assert [time for time, _ in frames] == pytest.approx([time for time, _ in wanted[:limit]], abs=1e-9)


@pytest.mark.parametrize("name", ["open.ts", "raw.h264"])
@pytest.mark.parametrize("limit", [1, 20, 41, 500])
def test_a_limit_keeps_the_first_frames(name: str, limit: int, tmp_path: Path) -> None:
    path = encode_clip(tmp_path / name, scene(70), *_CLIPS[name])
    sampling = Sampling(limit=limit)
    frames = decoded(path, divide(str(path), sampling), sampling)
    assert [pixels for _, pixels in frames] == [pixels for _, pixels in plain_frames(path)[:limit]]


def test_a_limit_stops_reading(tmp_path: Path) -> None:
    """Segments after the limit and groups without a chosen frame are left out."""
    path = encode_clip(tmp_path / "clip.mp4", scene(70), "libx264", _CLOSED)
    assert len(divide(str(path), Sampling(limit=20))) == 1
    assert len(divide(str(path), Sampling(Fraction(1, 2)))) == 2  # frames at 0 and 2 s, of 2.8 s
    container = av.open(str(path))
    read = []
    with patch("udfs.video._segments.packets", lambda *_: (read.append(p) or p for p in container.demux(video=0))):
        divide(str(path), Sampling(limit=5))
    assert len(read) <= 21


def corrupt(path: Path, target: Path, share: float) -> Path:
    """Overwrite a packet in the middle of a group; return the new file."""
    data = bytearray(path.read_bytes())
    with av.open(str(path)) as container:
        chosen = [packet for packet in container.demux(video=0) if packet.size][int(70 * share)]
        place, size = int(chosen.pos), int(chosen.size)
    data[place + 8 : place + size] = bytes([0xFF]) * (size - 8)
    target.write_bytes(data)
    return target


@pytest.mark.parametrize("least", [1, 1000])
def test_a_corrupt_frame_is_an_error_in_its_place(least: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("udfs.video._segments._LEAST_PACKETS", least)
    options = {"g": "20", "bf": "0", "x264-params": "scenecut=0:threads=1:sliced-threads=0"}
    whole = encode_clip(tmp_path / "clip.mp4", scene(70), "libx264", options)
    path = corrupt(whole, tmp_path / "corrupt.mp4", 0.5)
    pictures = [each for segment in divide(str(path), _ALL) for each in decode(str(path), segment, _ALL)]
    bad = [time for time, picture in pictures if isinstance(picture, VideoError)]
    assert bad == [pytest.approx(35 / 25)]
    assert [time for time, _ in pictures] == pytest.approx([number / 25 for number in range(70)])
    expected = plain_frames(whole)
    # Other groups are as in the intact file.
    for number in (*range(20), *range(40, 70)):
        assert pixels_of(pictures[number][1]) == expected[number][1]


@pytest.mark.parametrize("name", ["clip.mp4", "clip.avi", "clip.mkv"])
def test_a_truncated_file_keeps_its_first_frames(name: str, tmp_path: Path) -> None:
    options = {"movflags": "faststart"} if name == "clip.mp4" else {}
    path = encode_clip(tmp_path / name, scene(70), "mjpeg", container_options=options)
    expected = plain_frames(path)
    data = path.read_bytes()
    path.write_bytes(data[: int(len(data) * 0.6)])
    frames, failures = [], 0
    try:
        for segment in divide(str(path), _ALL):
            for time, picture in decode(str(path), segment, _ALL):
                if isinstance(picture, VideoError):
                    failures += 1
                else:
                    frames.append((time, pixels_of(picture)))
    except VideoError as error:
        assert "clip" in error.detail
        failures += 1
    assert 35 <= len(frames) <= 45
    assert [pixels for _, pixels in frames] == [pixels for _, pixels in expected[: len(frames)]]
    assert failures == 1 or name == "clip.mkv"  # Matroska does not store its length here


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "truncated or corrupt video file"),
        (b"no video" * 100, "truncated or corrupt video file"),
        (None, "no such file"),
    ],
)
def test_a_bad_file_is_named(content: bytes | None, reason: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.mp4"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(VideoError, match=r"bad\.mp4") as caught:
        divide(str(path), _ALL)
    assert caught.value.reason == reason
    assert reason in VIDEO_REASONS


def test_sound_is_no_video(tmp_path: Path) -> None:
    path = tmp_path / "sound.wav"
    with av.open(str(path), "w") as container:
        stream = container.add_stream("pcm_s16le", rate=8000, layout="mono")
        frame = av.AudioFrame.from_ndarray(np.zeros((1, 800), np.int16), layout="mono")
        frame.sample_rate = 8000
        container.mux(stream.encode(frame))
    with pytest.raises(VideoError, match="without a video stream"):
        divide(str(path), _ALL)


def test_a_uri_is_read_through_arrow(tmp_path: Path) -> None:
    path = encode_clip(tmp_path / "clip.mp4", scene(70), "libx264", _CLOSED)
    uri = f"s3://bucket{path}"
    with patch("udfs.images._file_reader._open_uri", lambda *_: fs.LocalFileSystem().open_input_file(str(path))):
        frames = [pixels_of(picture) for segment in divide(uri, _ALL) for _, picture in decode(uri, segment, _ALL)]
    assert frames == [pixels for _, pixels in plain_frames(path)]


@pytest.mark.parametrize("name", ["closed.mp4", "open.ts", "open.mkv", "hevc.mp4", "mpeg2.ts"])
def test_a_segment_is_decoded_without_those_before(name: str, tmp_path: Path) -> None:
    path = encode_clip(tmp_path / name, scene(70), *_CLIPS[name])
    segment = divide(str(path), _ALL)[-1]
    read = []
    with patch("udfs.video._decoding.packets", lambda opened, *_: (read.append(1) or p for p in opened.demux(video=0))):
        assert len(decoded(path, [segment])) <= 20
    assert len(read) <= 45


def test_a_key_frame_before_an_earlier_packet_begins_no_segment() -> None:
    """Some multiplexers order packets so; the frame at 60 would be in neither segment."""
    stamps = np.array([0, 20, 60, 40, 80, 100])
    keys = np.array([True, False, False, True, True, False])
    read = _Packets(stamps, stamps.tolist(), keys, np.ones(6, bool), Fraction(1, 100), is_whole=True)
    assert [(segment.start, segment.end) for segment in _segments(read, _ALL)] == [(None, 80), (80, None)]
