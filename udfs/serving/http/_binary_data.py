"""Tensors as raw bytes (binary extension of the protocol): little-endian, row-major, BYTES with lengths in front."""

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
    """Convert bytes to a tensor.

    Parameters
    ----------
    data : memoryview
        Exactly the bytes of the tensor.

    Returns
    -------
    array
        Array with its own memory, aligned and writable; for ``BYTES``, objects of type bytes.

    Raises
    ------
    BadRequestError
        The bytes do not form such a tensor.
    """
    if datatype == BYTES:
        return objects(list(_elements(data, math.prod(shape), name)), shape)
    dtype = NUMPY[datatype]
    expected = math.prod(shape) * dtype.itemsize
    if len(data) != expected:
        raise BadRequestError(
            f"binary_data_size of input {name!r} must be {expected} for {datatype} of shape {list(shape)}, got "
            f"{len(data)}."
        )
    if datatype == "BOOL":
        numbers = np.frombuffer(data, np.uint8)
        if numbers.size and numbers.max() > 1:
            raise BadRequestError(f"Input {name!r} must have bytes of BOOL that are 0 or 1, got {numbers.max()}.")
        return numbers.astype(np.bool_).reshape(shape)
    return np.frombuffer(data, dtype.newbyteorder("<")).astype(dtype).reshape(shape)


def to_binary(array: np.ndarray, datatype: str) -> bytes:
    """Convert a tensor to bytes, the inverse of :func:`from_binary`; texts become UTF-8."""
    if datatype == BYTES:
        return b"".join(_LENGTH.pack(len(element)) + element for element in elements_as_bytes(array))
    return array.astype(array.dtype.newbyteorder("<"), copy=False).tobytes()


def elements_as_bytes(array: np.ndarray) -> list[bytes]:
    """Return the elements of an array of bytes or texts, row-major.

    Raises
    ------
    TypeError
        An element is neither bytes nor a text.
    """
    return [_as_bytes(element) for element in array.ravel().tolist()]


def objects(elements: Sequence[object], shape: Sequence[int]) -> np.ndarray:
    """Return an array of objects; a numpy array of fixed width would drop trailing zeros."""
    array = np.empty(len(elements), dtype=object)
    array[:] = elements
    return array.reshape(shape)


def _as_bytes(element: object) -> bytes:
    if isinstance(element, bytes):
        return element
    if isinstance(element, str):
        return element.encode()
    raise TypeError(f"An element of BYTES must be bytes or str, got {type(element).__name__}.")


def _elements(data: memoryview, count: int, name: str) -> Iterator[bytes]:
    # Each element takes at least four bytes: a shape of billions is refused before memory is allocated for it.
    if count * _LENGTH.size > len(data):
        raise BadRequestError(f"Input {name!r} must have {count} elements of BYTES, got only {len(data)} bytes.")
    place = 0
    for number in range(count):
        start = place + _LENGTH.size
        length = _LENGTH.unpack_from(data, place)[0] if start <= len(data) else 0
        place = start + length
        if place > len(data):
            raise BadRequestError(f"Element {number} of input {name!r} is {place - len(data)} bytes short.")
        yield bytes(data[start:place])
    if place != len(data):
        raise BadRequestError(
            f"Input {name!r} must have {count} elements of BYTES, got {len(data) - place} bytes after them."
        )
