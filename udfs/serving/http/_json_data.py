"""Tensors as JSON, flat or nested: numbers are rounded to their type, no other value is changed."""

from __future__ import annotations

import math
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from udfs.serving import BadRequestError
from udfs.serving.http._binary_data import elements_as_bytes, objects
from udfs.serving.http._datatypes import BYTES, NUMPY

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["NotInJsonError", "from_json", "to_json"]

_TYPES: dict[str, set[type]] = {"b": {bool}, "i": {int}, "u": {int}, "f": {int, float}}
_WORDS = {bool: "a boolean", int: "an integer", float: "a number with a fraction", str: "a text", type(None): "null"}
_SHOWN = 40


class NotInJsonError(ValueError):
    """JSON cannot represent an output: NaN, an infinity, or bytes that are not UTF-8."""


def from_json(data: Any, datatype: str, shape: Sequence[int], name: str, *, missing: bool = False) -> np.ndarray:
    """Convert JSON data to a tensor; for ``BYTES``, to objects of type str.

    Parameters
    ----------
    data : list
        Data from the JSON parser.
    missing : bool
        Accept null: NaN in floating-point numbers, ``None`` in ``BYTES``. Default ``False``.

    Raises
    ------
    BadRequestError
        The values have another type, number or nesting, or do not fit the type.
    """
    if not isinstance(data, list):
        raise BadRequestError(f"data of input {name!r} must be a list, got {_word(data)}.")
    values = _flat(data, shape, name)
    if datatype == BYTES:
        _check_types(values, {str, type(None)} if missing else {str}, datatype, name)
        return objects(values, shape)
    dtype = NUMPY[datatype]
    nulls = [place for place, value in enumerate(values) if value is None] if missing and dtype.kind == "f" else []
    for place in nulls:
        values[place] = 0.0
    _check_types(values, _TYPES[dtype.kind], datatype, name)
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        _check_range(values, int(limits.min), int(limits.max), datatype, name)
    elif dtype.kind == "f":
        numbers = _rounded(values, dtype, datatype, name)
        numbers[nulls] = np.nan
        return numbers.reshape(shape)
    return np.array(values, dtype).reshape(shape)


def to_json(array: np.ndarray, datatype: str, name: str) -> list[Any]:
    """Convert a tensor to a flat list.

    Raises
    ------
    NotInJsonError
        JSON cannot represent a value.
    """
    if datatype == BYTES:
        try:
            return [element.decode() for element in elements_as_bytes(array)]
        except UnicodeDecodeError as error:
            raise NotInJsonError(f"Output {name!r} must be UTF-8 for JSON. Ask for binary data.") from error
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise NotInJsonError(f"Output {name!r} must be finite for JSON, got NaN or an infinity. Ask for binary data.")
    values: list[Any] = array.ravel().tolist()
    return values


def _flat(data: list[Any], shape: Sequence[int], name: str) -> list[Any]:
    """Flatten the data; its nesting must be that of the shape."""
    level, dimensions = data, 1
    while level and isinstance(level[0], list):
        sizes = {len(part) if isinstance(part, list) else -1 for part in level}
        if dimensions >= len(shape) or sizes != {shape[dimensions]} or len(level) != math.prod(shape[:dimensions]):
            raise BadRequestError(f"data of input {name!r} must be flat or nested in the shape {list(shape)}.")
        level, dimensions = list(chain.from_iterable(level)), dimensions + 1
    if len(level) != math.prod(shape) or (1 < dimensions < len(shape)):
        raise BadRequestError(
            f"data of input {name!r} must have {math.prod(shape)} values for shape {list(shape)}, got {len(level)}."
        )
    return level


def _check_types(values: list[Any], allowed: set[type], datatype: str, name: str) -> None:
    wrong = set(map(type, values)) - allowed
    if wrong:
        words = sorted(_WORDS.get(kind, f"a {kind.__name__}") for kind in wrong)
        raise BadRequestError(f"data of input {name!r} must be {datatype}, got {' and '.join(words)}.")


def _check_range(values: list[int], least: int, greatest: int, datatype: str, name: str) -> None:
    for value in (min(values, default=least), max(values, default=greatest)):
        if not least <= value <= greatest:
            raise BadRequestError(f"data of input {name!r} must fit {datatype}, got {_shown(value)}.")


def _rounded(values: list[float], dtype: np.dtype, datatype: str, name: str) -> np.ndarray:
    try:
        exact = np.array(values, np.float64)
    except OverflowError as error:
        raise BadRequestError(f"data of input {name!r} must fit {datatype}, got an integer beyond 1e308.") from error
    with np.errstate(over="ignore"):
        rounded = exact.astype(dtype)
    beyond = ~np.isfinite(rounded)
    if beyond.any():
        raise BadRequestError(f"data of input {name!r} must fit {datatype}, got {exact[beyond][0]:g}.")
    return rounded


def _shown(value: int) -> str:
    # Python refuses to write integers of thousands of digits.
    return str(value) if value.bit_length() < _SHOWN * 3 else f"an integer of {value.bit_length()} bits"


def _word(value: object) -> str:
    return _WORDS.get(type(value), "an object")
