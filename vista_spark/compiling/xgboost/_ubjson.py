"""Universal binary JSON, as XGBoost writes it: objects, lists, typed arrays, texts and numbers."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np

from optimizer.compiling import UnsupportedOperatorError

__all__ = ["parse_ubjson"]

_NUMBERS = {b"i": ">i1", b"U": ">u1", b"I": ">i2", b"l": ">i4", b"L": ">i8", b"d": ">f4", b"D": ">f8"}
_CONSTANTS = {b"Z": None, b"T": True, b"F": False}


def parse_ubjson(data: bytes) -> Any:
    """Read a document; an array of one type of number becomes an array of numpy.

    Raises
    ------
    UnsupportedOperatorError
        The bytes are none, or are cut off.
    """
    try:
        return _Reader(data).value()
    except (struct.error, IndexError, KeyError, ValueError, UnicodeDecodeError, RecursionError) as error:
        raise UnsupportedOperatorError(f"not a UBJ model of XGBoost, or cut off: {error!r}") from error


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def value(self, marker: bytes | None = None) -> Any:
        """The value at the reader's place."""
        kind = self._take(1) if marker is None else marker
        if kind in _NUMBERS:
            return self._numbers(_NUMBERS[kind], 1)[0].item()
        if kind in _CONSTANTS:
            return _CONSTANTS[kind]
        if kind in {b"S", b"C"}:
            return self._take(1 if kind == b"C" else self._length()).decode()
        return {b"{": self._object, b"[": self._array}[kind]()

    def _take(self, count: int) -> bytes:
        if count < 0 or self._at + count > len(self._data):
            raise ValueError(f"{count} bytes at {self._at} of {len(self._data)}")
        self._at += count
        return self._data[self._at - count : self._at]

    def _numbers(self, dtype: str, count: int) -> np.ndarray[Any, Any]:
        kind = np.dtype(dtype)
        return np.frombuffer(self._take(count * kind.itemsize), kind).astype(kind.newbyteorder("="))

    def _length(self) -> int:
        return int(self._numbers(_NUMBERS[self._take(1)], 1)[0])

    def _next_is(self, marker: bytes) -> bool:
        if self._data[self._at : self._at + 1] != marker:
            return False
        self._at += 1
        return True

    def _object(self) -> dict[str, Any]:
        found = {}
        while not self._next_is(b"}"):
            name = self._take(self._length()).decode()
            found[name] = self.value()
        return found

    def _array(self) -> Any:
        kind = self._take(1) if self._next_is(b"$") else None
        if self._next_is(b"#"):
            count = self._length()
            if kind in _NUMBERS:
                return self._numbers(_NUMBERS[kind], count)
            if count > len(self._data):
                raise ValueError(f"a list of {count} values in {len(self._data)} bytes")
            return [self.value(kind) for _ in range(count)]
        found = []
        while not self._next_is(b"]"):
            found.append(self.value())
        return found
