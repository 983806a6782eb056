"""Validation of requests, and their split into rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from optimizer.errors import nearest
from udfs.serving._errors import BadRequestError
from udfs.serving._router import ServedModel, TensorSpec
from udfs.serving._texts import ABSENT, pack_contents

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

__all__ = ["Admission", "Offered"]

# A row must fit into one message.
_LARGEST_ROW = 48 << 20
_MOST_ROWS = 4096


@dataclass(frozen=True, slots=True)
class Admission:
    """Validation of the requests of one model."""

    model: str  # name of the model, for messages
    inputs: tuple[TensorSpec, ...]  # inputs of the model
    # Type and shape of a decoded row, for inputs of encoded images that may be sent as tensors too.
    decoded: Mapping[str, tuple[str, tuple[int, ...]]]

    def rows(self, inputs: Mapping[str, Any]) -> list[dict[str, NDArray[Any]]]:
        """Validate a request and split it into rows; bytes and texts become arrays of bytes.

        Raises
        ------
        BadRequestError
            An input is not valid; the message names it and the requirement.
        """
        names = [spec.name for spec in self.inputs]
        for name in inputs:
            if name not in names:
                known = ", ".join(map(repr, names))
                raise BadRequestError(
                    f"Inputs of {self.model} must be {known}, got {name!r}{nearest(str(name), names) or '.'}"
                )
        missing = [name for name in names if name not in inputs]
        if missing:
            raise BadRequestError(f"Input {missing[0]!r} of {self.model} must be set.")
        columns = {spec.name: self._column(spec, np.asarray(inputs[spec.name])) for spec in self.inputs}
        counts = {name: len(column) for name, column in columns.items()}
        count = next(iter(counts.values()))
        if len(set(counts.values())) > 1:
            raise BadRequestError(f"Inputs must have one row per record, got different lengths: {counts}.")
        if not 1 <= count <= _MOST_ROWS:
            raise BadRequestError(f"A request must have 1 to {_MOST_ROWS} rows, got {count}.")
        rows = [{name: column[place] for name, column in columns.items()} for place in range(count)]
        for place, row in enumerate(rows):
            nbytes = sum(array.nbytes for array in row.values())
            if nbytes > _LARGEST_ROW:
                raise BadRequestError(f"A row must have at most {_LARGEST_ROW:,} bytes, got {nbytes:,} in row {place}.")
        return rows

    def _column(self, spec: TensorSpec, array: NDArray[Any]) -> list[NDArray[Any]]:
        if array.ndim == 0:
            raise BadRequestError(f"Input {spec.name!r} must be an array of rows, got a single number.")
        if spec.dtype == "bytes" and array.dtype.kind not in "OS":
            if spec.name not in self.decoded:
                raise BadRequestError(f"Input {spec.name!r} must be encoded images, got {array.dtype}.")
            dtype, shape = self.decoded[spec.name]
            return _tensors(TensorSpec(spec.name, dtype, (-1, *shape)), array)
        return _contents(spec, array) if spec.dtype in {"bytes", "str"} else _tensors(spec, array)


@dataclass(frozen=True, slots=True)
class Offered:
    """A model on offer."""

    model: ServedModel
    admission: Admission
    group: str  # group of sessions that a backend runs together
    shared: bool  # True if the group has other sessions
    least_ms: float  # milliseconds of a batch of one; a request with less time left is refused


def _tensors(spec: TensorSpec, array: NDArray[Any]) -> list[NDArray[Any]]:
    dtype = np.dtype(spec.dtype)
    missing = spec.missing and dtype.kind == "f"
    if missing and array.dtype == object and all(_is_number(value) for value in array.flat):
        array = array.astype(np.float64).astype(dtype)  # None becomes NaN
    if array.dtype != dtype:
        raise BadRequestError(f"Input {spec.name!r} must be {spec.dtype}, got {array.dtype}.")
    _check_shape(spec, array)
    if dtype.kind == "f" and not missing and not np.isfinite(array).all():
        raise BadRequestError(
            f"Input {spec.name!r} must be finite, got NaN or an infinity. A model that reads them declares "
            "TensorSpec(missing=True)."
        )
    # The ellipsis keeps a single number an array.
    return [array[place, ...] for place in range(len(array))]


def _contents(spec: TensorSpec, array: NDArray[Any]) -> list[NDArray[Any]]:
    shape = spec.shape[1:]
    if not shape:
        if array.size != len(array):  # a column of a table has one element per row
            _check_shape(spec, array)
        contents = [_content(spec, value) for value in array.reshape(-1)]
        return [ABSENT if content is None else np.frombuffer(content, np.uint8) for content in contents]
    _check_shape(spec, array)
    return [pack_contents([_content(spec, value) for value in row.flat], row.shape) for row in array]


def _check_shape(spec: TensorSpec, array: NDArray[Any]) -> None:
    fits = array.ndim == len(spec.shape) and all(
        want in (-1, size) for want, size in zip(spec.shape[1:], array.shape[1:], strict=True)
    )
    if not fits:
        raise BadRequestError(f"Input {spec.name!r} must have the shape {(-1, *spec.shape[1:])}, got {array.shape}.")


def _is_number(value: Any) -> bool:
    return value is None or (isinstance(value, int | float | np.number) and not isinstance(value, bool))


def _content(spec: TensorSpec, value: Any) -> bytes | None:
    if value is None and spec.missing:
        return None
    if spec.dtype == "str" and isinstance(value, str):
        try:
            return value.encode()
        except UnicodeEncodeError as error:
            raise BadRequestError(f"Input {spec.name!r} must be valid Unicode: {error}.") from error
    if isinstance(value, bytes | bytearray | memoryview):
        content = bytes(value)
        if spec.dtype == "str":
            try:
                content.decode()
            except UnicodeDecodeError as error:
                raise BadRequestError(f"Input {spec.name!r} must be UTF-8: {error}.") from error
        elif not content:
            raise BadRequestError(f"Input {spec.name!r} must be an encoded image, got no bytes.")
        return content
    what = "a text" if spec.dtype == "str" else "the bytes of an encoded image"
    raise BadRequestError(f"Input {spec.name!r} must be {what}, got {type(value).__name__}.")
