"""Tensors as raw bytes, the protocol's binary extension: little-endian, row-major, and BYTES with lengths in front."""

from __future__ import annotations

import math
import struct
from typing import TYPE_CHECKING

import numpy as np

from udfs.serving import BadRequestError
from udfs.serving.http._datatypes import BYTES, NUMPY

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["elements_as_bytes", "from_binary", "objects", "to_binary"]

_LENGTH = struct.Struct("<I")


def from_binary(data: memoryview, datatype: str, shape: Sequence[int], name: str) -> np.ndarray:
    """Read a tensor.

    Parameters
    ----------
    data : memoryview
        All of its bytes, and no others.
    datatype : str
        The protocol's name.
    shape : sequence of int
    name : str
        For messages.

    Returns
    -------
    array
        Of its own memory, aligned and writable; of ``BYTES``, objects of type bytes.

    Raises
    ------
    BadRequestError
        The bytes are not those of such a tensor.
    """
    if datatype == BYTES:
        return objects(list(_elements(data, math.prod(shape), name)), shape)
    dtype = NUMPY[datatype]
    expected = math.prod(shape) * dtype.itemsize
    if len(data) != expected:
        raise BadRequestError(
            f"input {name!r}: {datatype} of shape {list(shape)} is {expected} bytes, binary_data_size is {len(data)}"
        )
    if datatype == "BOOL":
        numbers = np.frombuffer(data, np.uint8)
        if numbers.size and numbers.max() > 1:
            raise BadRequestError(f"input {name!r}: a byte of BOOL is 0 or 1; there is {numbers.max()}")
        return numbers.astype(np.bool_).reshape(shape)
    return np.frombuffer(data, dtype.newbyteorder("<")).astype(dtype).reshape(shape)


def to_binary(array: np.ndarray, datatype: str) -> bytes:
    """Write a tensor, as :func:`from_binary` reads it; texts become UTF-8."""
    if datatype == BYTES:
        return b"".join(_LENGTH.pack(len(element)) + element for element in elements_as_bytes(array))
    return array.astype(array.dtype.newbyteorder("<"), copy=False).tobytes()


def elements_as_bytes(array: np.ndarray) -> list[bytes]:
    """List the elements of an array of bytes or texts, row-major.

    Raises
    ------
    TypeError
        An element is neither.
    """
    return [_as_bytes(element) for element in array.ravel().tolist()]


def objects(elements: Sequence[object], shape: Sequence[int]) -> np.ndarray:
    """Array of objects; numpy would make an array of fixed width of them, and cut zeros off their ends."""
    array = np.empty(len(elements), dtype=object)
    array[:] = elements
    return array.reshape(shape)


def _as_bytes(element: object) -> bytes:
    if isinstance(element, bytes):
        return element
    if isinstance(element, str):
        return element.encode()
    raise TypeError(f"an element of BYTES is bytes or a text, not {type(element).__name__}")


def _elements(data: memoryview, count: int, name: str) -> Iterator[bytes]:
    # Each element takes four bytes at least: a shape of billions ends here, before memory is taken for it.
    if count * _LENGTH.size > len(data):
        raise BadRequestError(f"input {name!r}: {count} elements of BYTES take more than {len(data)} bytes")
    place = 0
    for number in range(count):
        start = place + _LENGTH.size
        length = _LENGTH.unpack_from(data, place)[0] if start <= len(data) else 0
        place = start + length
        if place > len(data):
            raise BadRequestError(f"input {name!r}: element {number} of BYTES is {place - len(data)} bytes short")
        yield bytes(data[start:place])
    if place != len(data):
        raise BadRequestError(f"input {name!r}: {len(data) - place} bytes are left after {count} elements of BYTES")
