"""Decode a JPEG file only if it is complete: one that was cut, and closed with an end marker, is refused."""

from __future__ import annotations

import math
import re
import struct
from dataclasses import dataclass, field
from io import BytesIO
from typing import TYPE_CHECKING, Any

from PIL import Image, ImageFile
from PIL.JpegImagePlugin import JpegImageFile

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["open_jpeg", "shrink"]

# libjpeg fills up with zeros where an end marker comes too early: the rest of the picture is grey, and only a warning
# tells, which Pillow does not pass on. But without the marker libjpeg waits for more data, and a complete picture needs
# no more. So the marker is taken away, and in its place come 64 one-bits, as many as libjpeg reads ahead. No Huffman
# code is of ones alone: they decode to at most four symbols, the last block of the picture.
_END = b"\xff\xd9"
_ONES = b"\xff\x00" * 8
_PROBE = b"\0"
_SCANS_DECODER = "jpeg_in_complete_scans"

# Baseline, extended and progressive frames with Huffman codes. The others are left to libjpeg alone.
_FRAMES = (0xC0, 0xC1, 0xC2)
_PROGRESSIVE = 0xC2
_START_OF_SCAN, _RESTART_INTERVAL, _END_OF_IMAGE = 0xDA, 0xDD, 0xD9
_COEFFICIENTS = 64
# A marker in the data of a scan: neither a stuffed byte, nor padding, nor a restart.
_MARKER = re.compile(rb"\xff[^\x00\xff\xd0-\xd7]")
_RESTART = re.compile(rb"\xff[\xd0-\xd7]")


def open_jpeg(data: bytes) -> ImageFile.ImageFile:
    """Open a JPEG file so that its ``load()`` raises where the data end before the picture does.

    The image is not loaded yet, and anything may follow the end marker. Raise OSError, SyntaxError or struct.error if
    the file has no end marker, is a progressive one without all of its scans, or fails in Pillow's own reader.

    What is missing of the last block of the picture, a few bytes, goes unnoticed. Frames with arithmetic codes are not
    checked.
    """
    frame = _Frame.read(data)
    if frame is None:
        return _Jpeg(BytesIO(data))
    if not frame.several_scans:
        return _Jpeg(BytesIO(data[: frame.end] + _ONES))
    frame.check_scans(data)
    image = _Jpeg(BytesIO(data[: frame.end]))
    # One block of everything: the decoder sees the file's end.
    image.decodermaxblock = max(frame.end, 1)
    image.tile = [tile._replace(codec_name=_SCANS_DECODER) for tile in image.tile]
    return image


def shrink(image: ImageFile.ImageFile, max_pixels: int, least: tuple[int, int]) -> None:
    """Make a JPEG file with too many pixels load at a half, a fourth or an eighth of its size.

    The image stays as it is if none of these sizes has at most ``max_pixels`` pixels and at least the height and width
    ``least``, or if the file has several scans, which libjpeg keeps in memory at full size.
    """
    width, height = image.size
    if width * height <= max_pixels or any(tile.codec_name == _SCANS_DECODER for tile in image.tile):
        return
    for scale in (2, 4, 8):
        small = (width // scale, height // scale)
        if small[1] < least[0] or small[0] < least[1]:
            return
        if math.ceil(width / scale) * math.ceil(height / scale) <= max_pixels:
            image.draft(None, small)
            return


class _Jpeg(JpegImageFile):
    """A JPEG file whose EXIF block is left unparsed: Pillow parses it for the resolution alone, and warns of damage."""

    def getexif(self) -> Image.Exif:
        return Image.Exif()


class _ScansDecoder(ImageFile.PyDecoder):
    """Pillow's decoder of a file with several scans, which libjpeg reads to the end marker before it gives a pixel.

    After the last scan libjpeg looks for a marker, and skips any other byte at once. Within a scan it takes no byte
    before it has seven: that tells a complete last scan from one that was cut.
    """

    def decode(self, buffer: Any) -> tuple[int, int]:
        """Decode the whole file without its end marker."""
        decoder: Any = Image._getdecoder(self.mode, "jpeg", self.args)  # noqa: SLF001
        try:
            decoder.setimage(self.im, self.state.extents())
            rest = bytes(buffer) + _ONES
            for probe in (b"", _PROBE, _PROBE):
                rest += probe
                used, status = decoder.decode(rest)
                if used < 0:
                    # An error: no file of several scans ends without its marker.
                    return -1, status or _BROKEN
                if probe and used < len(rest):
                    return -1, _BROKEN
                rest = rest[used:]
            used, status = decoder.decode(rest + _END)
            return -1, status if used < 0 else _BROKEN
        finally:
            decoder.cleanup()


_BROKEN = -2
"""Pillow's code of a broken data stream."""

Image.register_decoder(_SCANS_DECODER, _ScansDecoder)


@dataclass(slots=True)
class _Scan:
    components: tuple[int, ...]
    first: int
    last: int
    precise: bool
    """Whether it delivers the lowest bit."""
    start: int
    restart_interval: int


@dataclass(slots=True)
class _Frame:
    """The headers of a JPEG file, as far as they tell whether it is complete."""

    kind: int
    height: int
    width: int
    sampling: dict[int, tuple[int, int]]
    """By component, blocks in an MCU across and down."""
    scans: list[_Scan] = field(default_factory=list)
    end: int = 0

    @property
    def several_scans(self) -> bool:
        return self.kind == _PROGRESSIVE or len(self.scans[0].components) < len(self.sampling)

    @classmethod
    def read(cls, data: bytes) -> _Frame | None:
        """Read the headers; ``None`` where the frame is of a kind that is not checked.

        Raise OSError if no end marker follows the first scan, and struct.error if a header is cut.
        """
        frame: _Frame | None = None
        interval = 0
        for marker, start, stop in _segments(data):
            if marker == _END_OF_IMAGE:
                if frame is None or not frame.scans:
                    return None
                frame.end = start
                return frame
            segment = data[start:stop]
            if marker in _FRAMES:
                _, height, width, count = struct.unpack_from(">BHHB", segment)
                parts = [struct.unpack_from("BBB", segment, 6 + 3 * place) for place in range(count)]
                frame = cls(marker, height, width, {name: (ways >> 4, ways & 15) for name, ways, _ in parts})
            elif marker == _RESTART_INTERVAL:
                (interval,) = struct.unpack_from(">H", segment)
            elif marker == _START_OF_SCAN:
                if frame is None:
                    return None
                count = segment[0]
                names = tuple(segment[1 : 1 + 2 * count : 2])
                first, last, bits = struct.unpack_from("BBB", segment, 1 + 2 * count)
                frame.scans.append(_Scan(names, first, last, bits & 15 == 0, stop, interval))
        if frame is None or not frame.scans:
            return None  # Pillow has the words for it
        raise OSError("the end marker is missing")

    def check_scans(self, data: bytes) -> None:
        """Raise ``OSError`` unless there is a scan for every coefficient to its last bit, and every restart."""
        for component in self.sampling:
            matching = [scan for scan in self.scans if component in scan.components]
            if self.kind != _PROGRESSIVE:
                complete = bool(matching)
            else:
                delivered = {place for scan in matching if scan.precise for place in range(scan.first, scan.last + 1)}
                complete = len(delivered) == _COEFFICIENTS
            if not complete:
                raise OSError("scans are missing")
        last = self.scans[-1]
        if last.restart_interval:
            restarts = (self._units(last) - 1) // last.restart_interval
            if len(_RESTART.findall(data, last.start, self.end)) < restarts:
                raise OSError("restarts are missing")

    def _units(self, scan: _Scan) -> int:
        """Count a scan's MCUs: the frame's, or the blocks of its only component (T.81, A.2)."""
        across = max(ways for ways, _ in self.sampling.values())
        down = max(ways for _, ways in self.sampling.values())
        sampling = self.sampling[scan.components[0]] if len(scan.components) == 1 else (1, 1)
        width, height = (math.ceil(self.width * sampling[0] / across), math.ceil(self.height * sampling[1] / down))
        block = (8, 8) if len(scan.components) == 1 else (8 * across, 8 * down)
        return math.ceil(width / block[0]) * math.ceil(height / block[1])


def _segments(data: bytes) -> Iterator[tuple[int, int, int]]:
    """Walk the markers: which one, and where its segment begins and ends; of the end marker, where it stands."""
    place = 2
    while True:
        match = _MARKER.search(data, place)
        if match is None:
            return
        marker, start = data[match.end() - 1], match.end()
        if marker == _END_OF_IMAGE:
            yield marker, match.start(), start
            return
        if len(data) < start + 2:
            return
        (length,) = struct.unpack_from(">H", data, start)
        yield marker, start + 2, start + length
        place = start + max(length, 2)
