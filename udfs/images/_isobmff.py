"""Readers of AVIF and HEIC, which share a container (ISO base media file format, ISO/IEC 14496-12) and its brands."""

from __future__ import annotations

from functools import cache

from PIL import ImageFile, features

from udfs.images._errors import ImageError

__all__ = ["isobmff_reader"]

_AVIF = frozenset({b"avif", b"avis"})
_HEIC = frozenset({b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"hevm", b"hevs", b"mif1", b"msf1"})
_TYPE = b"ftyp"  # box with the brands, the first of a file
_BRAND = 4
_MOST_BRANDS = 64


def isobmff_reader(data: bytes) -> type[ImageFile.ImageFile] | None:
    """Return Pillow's reader of an AVIF or HEIC file; ``None`` for any other file.

    Raises
    ------
    ImageError
        The format cannot be decoded here.
    """
    if data[4:8] != _TYPE:
        return None
    end = min(int.from_bytes(data[:4], "big"), len(data), 16 + _BRAND * _MOST_BRANDS)
    # The major brand, and the compatible ones behind a version.
    brands = {data[8:12], *(data[at : at + _BRAND] for at in range(16, end, _BRAND))}
    if brands & _AVIF:
        reader, remedy = _avif(), "install Pillow 11.3 or newer"
        if reader is None:
            raise ImageError("AVIF cannot be decoded here", remedy)
        return reader
    if brands & _HEIC:
        reader, remedy = _heic(), "install pillow-heif"
        if reader is None:
            raise ImageError("HEIC cannot be decoded here", remedy)
        return reader
    return None


@cache
def _avif() -> type[ImageFile.ImageFile] | None:
    try:
        from PIL.AvifImagePlugin import AvifImageFile
    except ImportError:  # of an older Pillow
        return None
    return AvifImageFile if features.check("avif") else None


@cache
def _heic() -> type[ImageFile.ImageFile] | None:
    try:
        from pillow_heif import HeifImageFile
    except ImportError:  # an optional plugin
        return None
    return HeifImageFile  # type: ignore[no-any-return]
