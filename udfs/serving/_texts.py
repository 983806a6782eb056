"""Texts and contents of a row as one array of bytes, which the wire protocol carries."""

from __future__ import annotations

import math
import struct
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

__all__ = ["ABSENT", "from_wire", "pack_contents", "to_wire", "unpack_contents", "wire_bytes"]

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


def to_wire(array: NDArray[Any]) -> Any:
    """Return an output as the wire protocol carries it: numbers unchanged, texts or bytes packed.

    Examples
    --------
    >>> from_wire(to_wire(np.array(["cat", "dog"], object)))
    array(['cat', 'dog'], dtype=object)
    """
    if array.dtype != object:
        return array
    texts = any(isinstance(element, str) for element in array.flat)
    contents = [element.encode() if isinstance(element, str) else element for element in array.flat]
    return {"texts": texts, "dimensions": array.ndim, "packed": pack_contents(contents, array.shape)}


def from_wire(value: NDArray[Any] | dict[str, Any]) -> NDArray[Any]:
    """Return an output that :func:`to_wire` converted."""
    if not isinstance(value, dict):
        return value
    contents = unpack_contents(value["packed"], value["dimensions"])
    if value["texts"]:
        for place, content in np.ndenumerate(contents):
            contents[place] = content.decode()
    return contents


def wire_bytes(value: Any) -> int:
    """Return the bytes of a converted output."""
    array = value["packed"] if isinstance(value, dict) else value
    return int(array.nbytes)
