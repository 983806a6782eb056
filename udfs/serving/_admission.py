"""Validation of requests, and their split into rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from optimizer.errors import nearest
from udfs.serving._errors import BadRequestError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from udfs.serving._router import TensorSpec

__all__ = ["Admission"]

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
            return self._tensors(spec.name, array, *self.decoded[spec.name])
        if spec.dtype in {"bytes", "str"}:
            return [_content(spec, value) for value in array.reshape(len(array), -1)[:, 0]] if array.size else []
        return self._tensors(spec.name, array, spec.dtype, spec.shape[1:])

    def _tensors(self, name: str, array: NDArray[Any], dtype: str, shape: tuple[int, ...]) -> list[NDArray[Any]]:
        if array.dtype != np.dtype(dtype):
            raise BadRequestError(f"Input {name!r} must be {dtype}, got {array.dtype}.")
        fits = array.ndim == 1 + len(shape) and all(
            want in (-1, size) for want, size in zip(shape, array.shape[1:], strict=True)
        )
        if not fits:
            raise BadRequestError(f"Input {name!r} must have the shape {(-1, *shape)}, got {array.shape}.")
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise BadRequestError(f"Input {name!r} must be finite, got NaN or an infinity.")
        return list(array)


def _content(spec: TensorSpec, value: Any) -> NDArray[Any]:
    if spec.dtype == "str" and isinstance(value, str):
        return np.frombuffer(value.encode(), np.uint8)
    if isinstance(value, bytes | bytearray | memoryview):
        content = bytes(value)
        if spec.dtype == "str":
            try:
                content.decode()
            except UnicodeDecodeError as error:
                raise BadRequestError(f"Input {spec.name!r} must be UTF-8: {error}.") from error
        elif not content:
            raise BadRequestError(f"Input {spec.name!r} must be an encoded image, got no bytes.")
        return np.frombuffer(content, np.uint8)
    what = "a text" if spec.dtype == "str" else "the bytes of an encoded image"
    raise BadRequestError(f"Input {spec.name!r} must be {what}, got {type(value).__name__}.")
