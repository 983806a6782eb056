"""Texts and contents of a row as one array of bytes, which the wire protocol carries."""

from __future__ import annotations

import math
import struct
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

__all__ = ["ABSENT", "pack_contents", "unpack_contents"]

ABSENT = np.zeros(0, np.bool_)
"""Null in an input of one text or content per row; contents are arrays of uint8."""

_NUMBER = struct.Struct("<I")
_NULL = 2**32 - 1


def pack_contents(contents: Sequence[bytes | None], shape: Sequence[int]) -> NDArray[np.uint8]:
    """Pack contents, and the shape that they form: the sizes, then each length and content.

    Examples
    --------
    >>> packed = pack_contents([b"a", None, b"cc", b""], (2, 2))
    >>> unpack_contents(packed, 2).tolist()
    [[b'a', None], [b'cc', b'']]
    """
    parts = [_NUMBER.pack(size) for size in shape]
    for content in contents:
        parts.append(_NUMBER.pack(_NULL if content is None else len(content)))
        parts.append(content or b"")
    return np.frombuffer(b"".join(parts), np.uint8)


def unpack_contents(packed: NDArray[np.uint8], dimensions: int) -> NDArray[Any]:
    """Unpack contents as an array of objects with a number of dimensions; the inverse of :func:`pack_contents`."""
    data = packed.tobytes()
    place = dimensions * _NUMBER.size
    shape = [_NUMBER.unpack_from(data, at)[0] for at in range(0, place, _NUMBER.size)]
    contents = np.empty(math.prod(shape), object)
    for number in range(len(contents)):
        (length,) = _NUMBER.unpack_from(data, place)
        place += _NUMBER.size
        if length != _NULL:
            contents[number] = data[place : place + length]
            place += length
    return contents.reshape(shape)
