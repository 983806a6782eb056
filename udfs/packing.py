"""Nested data with tensors as bytes: tensors in safetensors' format, everything else as JSON beside them, no pickle."""

from __future__ import annotations

import json
import math
from io import BytesIO
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load, save

from optimizer.errors import CerebroError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import BinaryIO

    from numpy.typing import NDArray

__all__ = ["StateError", "pack", "safetensors_metadata", "unpack"]

# The format's own limit on a header; a length beyond it is not read into memory.
_LONGEST_HEADER = 100_000_000

# Names of the format for types of numpy; for any other, the format's own library writes and reads.
_TYPES = {
    "bool": "BOOL",
    "float16": "F16",
    "float32": "F32",
    "float64": "F64",
    **{f"{sign}int{bits}": f"{sign.upper() or 'I'}{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)},
}
_NUMPY = {name: np.dtype(kind) for kind, name in _TYPES.items()}

# Arrays up to this number of bytes are copied out of a state, which they would otherwise keep in memory.
_SMALL = 1 << 16

# Keys of JSON objects that stand for what JSON has no word for.
_TENSOR, _TUPLE, _PAIRS = "$tensor", "$tuple", "$pairs"


class StateError(CerebroError, ValueError):
    """A state that is not data (it holds a function, for example), or bytes that are no state."""


def pack(
    state: Mapping[str, Any],
    as_array: Callable[[Any], tuple[NDArray[np.generic], str] | None],
    allocate: Callable[[int], memoryview] | None = None,
) -> bytes:
    """Turn a nested state into bytes.

    Parameters
    ----------
    state : mapping
        Nested dicts, lists, tuples, strings, numbers, ``None`` and tensors.
    as_array : callable
        Gives a framework's tensor as an array and a name of its type for :func:`unpack`; ``None`` for anything else.
    allocate : callable, optional
        Function of a number of bytes that returns writable memory for the result, such as pages of a file. By default
        the result is ``bytes``.

    Returns
    -------
    bytes
        A safetensors file, as a ``memoryview`` with ``allocate``; its metadata has the nesting, under ``"state"``.

    Raises
    ------
    StateError
        A value that is none of these; the message has its place.

    Examples
    --------
    >>> arrays = lambda value: (value, "numpy") if isinstance(value, np.ndarray) else None
    >>> packed = pack({"weights": [np.ones(2)], "betas": (0.9, 0.999), 3: None}, arrays)
    >>> unpack(packed, lambda array, kind: array)
    {'weights': [array([1., 1.])], 'betas': (0.9, 0.999), 3: None}
    """
    tensors: dict[str, NDArray[np.generic]] = {}

    def plain(value: Any, place: str) -> Any:
        tensor = as_array(value)
        if tensor is not None:
            array, kind = tensor
            tensors[place] = np.asarray(array, order="C")
            return {_TENSOR: place, "as": kind}
        if isinstance(value, dict):
            if all(isinstance(key, str) and not key.startswith("$") for key in value):
                return {key: plain(inner, f"{place}.{key}") for key, inner in value.items()}
            return {_PAIRS: [[plain(key, place), plain(inner, f"{place}.{key}")] for key, inner in value.items()]}
        if isinstance(value, (list, tuple)):
            items = [plain(inner, f"{place}.{number}") for number, inner in enumerate(value)]
            return items if isinstance(value, list) else {_TUPLE: items}
        if value is None or isinstance(value, (str, bool, int, float)):
            return value
        raise StateError(
            f"the state has a {type(value).__name__} at {place.lstrip('.')}, which is neither a tensor nor plain data: "
            "a state travels between workers and is written to the store, so it has to be data"
        )

    nesting = plain(dict(state), "")
    return _written(tensors, {"state": json.dumps(nesting)}, allocate)


def unpack(packed: bytes, as_tensor: Callable[[NDArray[np.generic], str], Any]) -> dict[Any, Any]:
    """Read what :func:`pack` wrote.

    Parameters
    ----------
    as_tensor : callable
        Makes a tensor of an array (a view of ``packed`` where possible) and the name of its type.

    Raises
    ------
    StateError
        These bytes are no such state.
    """
    try:
        header = packed[: 8 + int.from_bytes(packed[:8], "little")]
        nesting = json.loads((safetensors_metadata(BytesIO(header)) or {})["state"])
        tensors = _read(packed)
    except (SafetensorError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise StateError(f"{len(packed)} bytes that are not a state: {error}") from error

    def rich(value: Any) -> Any:
        if isinstance(value, list):
            return [rich(inner) for inner in value]
        if not isinstance(value, dict):
            return value
        if _TENSOR in value:
            return as_tensor(tensors[value[_TENSOR]], value["as"])
        if _TUPLE in value:
            return tuple(rich(value[_TUPLE]))
        if _PAIRS in value:
            return {rich(key): rich(inner) for key, inner in value[_PAIRS]}
        return {key: rich(inner) for key, inner in value.items()}

    state: dict[Any, Any] = rich(nesting)
    return state


def _written(
    tensors: Mapping[str, NDArray[np.generic]],
    metadata: dict[str, str],
    allocate: Callable[[int], memoryview] | None,
) -> bytes:
    """Write a safetensors file, with one copy of what it holds: the library makes three."""
    if any(array.dtype.name not in _TYPES or not array.dtype.isnative for array in tensors.values()):
        return bytes(save(dict(tensors), metadata=metadata))
    # The widest first: all are aligned then, for the header has a multiple of eight bytes.
    ordered = sorted(tensors.items(), key=lambda item: (-item[1].itemsize, item[0]))
    header: dict[str, Any] = {"__metadata__": metadata}
    end = 0
    for name, array in ordered:
        begin, end = end, end + array.nbytes
        header[name] = {
            "dtype": _TYPES[array.dtype.name],
            "shape": list(array.shape),
            "data_offsets": [begin, end],
        }
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    if len(text) > _LONGEST_HEADER:
        raise StateError(f"the state takes {len(text):,} bytes beside its tensors, and {_LONGEST_HEADER:,} are allowed")
    contents = (array.reshape(-1).view(np.uint8).data for _, array in ordered)
    parts: list[bytes | memoryview] = [len(text).to_bytes(8, "little"), text, *contents]
    if allocate is None:
        return b"".join(parts)
    packed = allocate(8 + len(text) + end)
    place = 0
    for part in parts:
        packed[place : place + len(part)] = part
        place += len(part)
    return cast("bytes", packed)


def _read(packed: bytes) -> dict[str, NDArray[np.generic]]:
    """Read the tensors of a safetensors file, as views of it where they are large; ValueError where it is none."""
    length = int.from_bytes(packed[:8], "little")
    header = json.loads(bytes(packed[8 : 8 + length]))
    header.pop("__metadata__", None)
    if any(entry["dtype"] not in _NUMPY for entry in header.values()):
        return load(bytes(packed))
    tensors = {}
    end = 0
    for name, entry in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
        (begin, stop), shape, dtype = entry["data_offsets"], entry["shape"], _NUMPY[entry["dtype"]]
        plain = all(type(number) is int and number >= 0 for number in (begin, stop, *shape))
        count = math.prod(shape) if plain else 0
        if not plain or begin != end or stop - begin != count * dtype.itemsize or 8 + length + stop > len(packed):
            raise ValueError(f"the tensor {name} is not where the header says")
        end = stop
        array = np.frombuffer(packed, dtype, count, 8 + length + begin if count else 0).reshape(shape)
        tensors[name] = array.copy() if array.nbytes <= _SMALL else array
    if 8 + length + end != len(packed):
        raise ValueError(f"{len(packed) - 8 - length - end} bytes belong to no tensor")
    return tensors


def safetensors_metadata(file: BinaryIO) -> dict[str, str] | None:
    """Read the metadata of a safetensors file; its tensors are not read.

    Parameters
    ----------
    file : binary file
        Seekable; it is read from its beginning.

    Returns
    -------
    dict of str to str, or None
        Empty where the file has no metadata; ``None`` where it is not a safetensors file: too short for the header that
        it announces, or with a header that is not a JSON object.

    Examples
    --------
    >>> safetensors_metadata(BytesIO(save({"weight": np.ones(2)}, metadata={"sizes": "[2]"})))
    {'sizes': '[2]'}
    >>> safetensors_metadata(BytesIO(b"PK")) is None
    True
    """
    size = file.seek(0, 2)
    file.seek(0)
    length = int.from_bytes(file.read(8), "little")
    if length > min(size - file.tell(), _LONGEST_HEADER):
        return None
    try:
        header = json.loads(file.read(length))
    except (ValueError, RecursionError):
        return None
    metadata = header.get("__metadata__", {}) if isinstance(header, dict) else None
    return metadata if isinstance(metadata, dict) else None
