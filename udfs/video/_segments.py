"""Division of a video file into segments that begin at key frames, by reading its packets without decoding them."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from udfs.video._container import open_video, packets
from udfs.video._errors import VideoError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from udfs.video._sampling import Sampling

__all__ = ["Segment", "divide"]

# Opening a file and seeking take about as long as decoding ten frames.
_LEAST_PACKETS = 128


@dataclass(frozen=True, slots=True)
class Segment:
    """Frames of a file from one time stamp up to another, all in the time base of the stream.

    Attributes
    ----------
    start : int or None
        Time stamp of the first frame, a key frame; ``None`` for the first frame of the file.
    decoding : int or None
        Decoding time stamp of the first frame, by which some containers seek.
    end : int or None
        Time stamp that all frames precede; ``None`` for the end of the file.
    origin : int or None
        Time stamp at which time is 0; ``None`` if packets have no time stamps, so that frames are counted.
    slot : int
        Slot of the last frame before the segment (:meth:`udfs.video.Sampling.slot`); -1 if there is none.
    limit : int or None
        Largest number of chosen frames; no limit by default.
    """

    start: int | None = None
    decoding: int | None = None
    end: int | None = None
    origin: int | None = None
    slot: int = -1
    limit: int | None = None


def divide(path: str, sampling: Sampling) -> list[Segment]:
    """Divide a file into segments without frames in common, whose frames are all that are to be decoded.

    A segment begins at a key frame that is later than all packets before it, and has at least 128 packets if more
    follow. Leading pictures of an open group of pictures come after the key frame in the file and precede it in time:
    they belong to the segment before. Segments without a chosen frame are left out.

    Parameters
    ----------
    path : str
        Path or URI of the file.
    sampling : Sampling
        Choice of frames. Reading stops where its limit is reached.

    Returns
    -------
    list of Segment
        In the order of time. A single one for a file without time stamps.

    Raises
    ------
    VideoError
        The file cannot be opened, has no video, or no packet. An error further on is left to the decoder.
    """
    with open_video(path) as (container, stream):
        unit = stream.time_base or Fraction(1)
        stamps: list[int] = []
        decoding: list[int | None] = []
        keys: list[bool] = []
        shown: list[bool] = []
        slots: set[int] = set()
        is_whole = True
        try:
            for packet in packets(container, stream, path):
                if not packet.size:
                    continue
                if packet.pts is None:
                    return [Segment(limit=sampling.limit)]
                if packet.is_keyframe and sampling.limit is not None and len(slots) > sampling.limit:
                    is_whole = False
                    break
                stamps.append(packet.pts)
                decoding.append(packet.dts)
                keys.append(packet.is_keyframe)
                shown.append(not packet.is_discard)
                slots.add(sampling.slot(packet.pts - stamps[0], unit))
        except VideoError:
            is_whole = False
            if not stamps:
                raise
    if not any(shown):
        raise VideoError("truncated or corrupt video file", f"{path} (no frame)")
    read = _Packets(np.array(stamps), decoding, np.array(keys), np.array(shown), unit, is_whole)
    return _segments(read, sampling)


@dataclass(frozen=True, slots=True)
class _Packets:
    stamps: NDArray[np.int64]
    decoding: list[int | None]
    keys: NDArray[np.bool_]
    shown: NDArray[np.bool_]
    unit: Fraction
    is_whole: bool


def _segments(read: _Packets, sampling: Sampling) -> list[Segment]:
    stamps, keys, is_whole = read.stamps, read.keys, read.is_whole
    frames = np.sort(stamps[read.shown])
    origin = int(frames[0])
    slots: NDArray[Any] = np.array([sampling.slot(int(stamp) - origin, read.unit) for stamp in frames])
    is_chosen = np.ones(len(frames), bool) if sampling.fps is None else np.diff(slots, prepend=-1) > 0
    chosen = np.concatenate([[0], np.cumsum(is_chosen)])
    latest = np.maximum.accumulate(stamps)
    starts = [0, *(1 + np.flatnonzero(keys[1:] & (stamps[1:] > latest[:-1])))]
    ranks = [0, *np.searchsorted(frames, stamps[starts[1:]]), len(frames)]
    merged: list[tuple[int, int]] = []  # places in `starts`
    for place, (first, last) in enumerate(pairwise(ranks)):
        is_unknown = place == len(starts) - 1 and not is_whole
        if chosen[first] == chosen[last] and not is_unknown:
            continue
        if merged and merged[-1][1] == place and ranks[place] - ranks[merged[-1][0]] < _LEAST_PACKETS:
            merged[-1] = (merged[-1][0], place + 1)
        else:
            merged.append((place, place + 1))
    segments = []
    for first, last in merged:
        rank, before = ranks[first], int(chosen[ranks[first]])
        if sampling.limit is not None and before >= sampling.limit:
            break
        end = int(stamps[starts[last]]) if last < len(starts) else None
        if sampling.fps is not None and (end is not None or is_whole):
            # Decoding stops after the last chosen frame.
            end = int(frames[rank : ranks[last]][is_chosen[rank : ranks[last]]][-1]) + 1
        segments.append(
            Segment(
                start=int(stamps[starts[first]]) if first else None,
                decoding=read.decoding[starts[first]] if first else None,
                end=end,
                origin=origin,
                slot=int(slots[rank - 1]) if rank else -1,
                limit=None if sampling.limit is None else sampling.limit - before,
            )
        )
    return segments
