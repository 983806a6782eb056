"""Decode a segment of a video file into the frames that a decoder of the whole file returns."""

from __future__ import annotations

import contextlib
from fractions import Fraction
from typing import TYPE_CHECKING, TypeAlias

from udfs.video._container import import_av, open_video, packets, refuse
from udfs.video._errors import VideoError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from av.container import InputContainer
    from av.video.frame import VideoFrame
    from av.video.stream import VideoStream

    from udfs.video._sampling import Sampling
    from udfs.video._segments import Segment

    Picture: TypeAlias = VideoFrame | VideoError

__all__ = ["decode"]

_CORRUPT = "truncated or corrupt frame"

# Frames per second of a file without time stamps and without a rate, which FFmpeg assumes too.
_RATE = Fraction(25)


class _InexactError(Exception):
    """The decoder did not begin at the key frame of a segment."""


def decode(path: str, segment: Segment, sampling: Sampling) -> Iterator[tuple[float, Picture]]:
    """Decode the chosen frames of a segment.

    If the first frame after seeking is not the key frame of the segment (a container without a usable index, a stream
    that refreshes pictures gradually), decoding begins at the start of the file, so that frames are always exact.

    Parameters
    ----------
    path : str
        Path or URI of the file.
    segment : Segment
        Element of :func:`udfs.video.divide`.
    sampling : Sampling
        Choice of frames. Frames that cannot be decoded are chosen like others.

    Yields
    ------
    float
        Seconds since the first frame of the file.
    av.VideoFrame or VideoError
        Frame in the pixel format of the file, or the error in its place.

    Raises
    ------
    VideoError
        The file cannot be opened, or ends too early; all frames before are yielded.
    """
    count, slot = 0, segment.slot
    for stamp, unit, picture in _exact(path, segment):
        if sampling.fps is not None:
            previous, slot = slot, max(slot, sampling.slot(stamp, unit))
            if slot == previous:
                continue
        yield stamp * unit.numerator / unit.denominator, picture
        count += 1
        if count == segment.limit:
            return


def _exact(path: str, segment: Segment) -> Iterator[tuple[int, Fraction, Picture]]:
    # Matroska seeks by presentation time stamps, MPEG-TS by decoding time stamps.
    for target in dict.fromkeys((segment.start, segment.decoding)):
        if target is not None:
            try:
                yield from _pictures(path, segment, target)
            except _InexactError:
                continue  # raised before the first frame
            return
    yield from _pictures(path, segment, None)


def _pictures(path: str, segment: Segment, target: int | None) -> Iterator[tuple[int, Fraction, Picture]]:
    """Yield all frames of a segment, with stamps since the first frame of the file, after seeking to a time stamp."""
    key = None if target is None else segment.start
    with open_video(path) as (container, stream):
        decoded = _decoded(container, stream, path, target)
        if segment.origin is None:
            unit = 1 / Fraction(stream.average_rate or stream.guessed_rate or _RATE)
            yield from ((stamp, unit, picture) for stamp, (_, picture) in enumerate(decoded))
            return
        unit = Fraction(stream.time_base or 1)
        try:
            for stamp, picture in _ordered(decoded):
                if segment.start is not None and stamp < segment.start:
                    continue
                if key is not None:
                    if stamp != key or not (isinstance(picture, VideoError) or picture.key_frame):
                        raise _InexactError
                    key = None
                if segment.end is not None and stamp >= segment.end:
                    return
                yield stamp - segment.origin, unit, picture
        except VideoError as error:
            if key is not None:
                raise _InexactError from error
            raise
        if key is not None:
            raise _InexactError


def _ordered(decoded: Iterable[tuple[int | None, Picture]]) -> Iterator[tuple[int, Picture]]:
    """Sort errors among the frames, which decoders return late, by their time stamps."""
    errors: dict[int, VideoError] = {}
    try:
        for stamp, picture in decoded:
            if stamp is None:
                continue
            if isinstance(picture, VideoError):
                errors[stamp] = picture
                continue
            if errors:
                for bad in sorted(bad for bad in errors if bad < stamp):
                    yield bad, errors.pop(bad)
                yield stamp, errors.pop(stamp, picture)
            else:
                yield stamp, picture
    except VideoError:
        yield from sorted(errors.items())
        raise
    yield from sorted(errors.items())


def _decoded(
    container: InputContainer, stream: VideoStream, path: str, target: int | None
) -> Iterator[tuple[int | None, Picture]]:
    """Yield frames in the order of output, with their time stamps, and errors when they occur."""
    av, decoder = import_av(), stream.codec_context
    try:
        if target is not None:
            container.seek(target, stream=stream)
    except av.FFmpegError as error:
        raise _InexactError from error
    try:
        for packet in packets(container, stream, path):
            if packet.is_corrupt:
                yield packet.pts, VideoError(_CORRUPT, path)
            try:
                frames = decoder.decode(packet if packet.size else None)
            except av.FFmpegError as error:
                yield packet.pts, refuse(error, _CORRUPT, path)
                continue
            for frame in frames:
                yield frame.pts, VideoError(_CORRUPT, path) if frame.is_corrupt else frame
    except VideoError:
        with contextlib.suppress(av.FFmpegError):  # the first error counts
            yield from ((frame.pts, frame) for frame in decoder.decode(None))
        raise
