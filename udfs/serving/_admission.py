"""The check of a request at the door, and its rows as they travel."""

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

# A row travels in one message.
_LARGEST_ROW = 48 << 20
_MOST_ROWS = 4096


@dataclass(frozen=True, slots=True)
class Admission:
    """Inputs that a model takes.

    Parameters
    ----------
    model : str
    inputs : tuple of TensorSpec
    decoded : mapping of str to (str, tuple of int)
        Inputs of encoded images that may be tensors as well, and the type and shape of such a row.
    """

    model: str
    inputs: tuple[TensorSpec, ...]
    decoded: Mapping[str, tuple[str, tuple[int, ...]]]

    def rows(self, inputs: Mapping[str, Any]) -> list[dict[str, NDArray[Any]]]:
        """Check a request and take it apart into rows; bytes and texts become arrays of bytes.

        Raises
        ------
        BadRequestError
            The message names the input and what it has to be.
        """
        names = [spec.name for spec in self.inputs]
        for name in inputs:
            if name not in names:
                known = ", ".join(map(repr, names))
                raise BadRequestError(f"{self.model} has no input {name!r}, only {known}{nearest(str(name), names)}")
        missing = [name for name in names if name not in inputs]
        if missing:
            raise BadRequestError(f"{self.model} needs the input {missing[0]!r}")
        columns = {spec.name: self._column(spec, np.asarray(inputs[spec.name])) for spec in self.inputs}
        counts = {name: len(column) for name, column in columns.items()}
        count = next(iter(counts.values()))
        if len(set(counts.values())) > 1:
            raise BadRequestError(f"inputs of different lengths: {counts}; give each a row for each record")
        if not 1 <= count <= _MOST_ROWS:
            raise BadRequestError(f"{count} rows: from 1 to {_MOST_ROWS}")
        rows = [{name: column[place] for name, column in columns.items()} for place in range(count)]
        for place, row in enumerate(rows):
            held = sum(array.nbytes for array in row.values())
            if held > _LARGEST_ROW:
                raise BadRequestError(f"row {place} takes {held:,} bytes, and at most {_LARGEST_ROW:,} are taken")
        return rows

    def _column(self, spec: TensorSpec, array: NDArray[Any]) -> list[NDArray[Any]]:
        if array.ndim == 0:
            raise BadRequestError(f"{spec.name!r} has no batch in front: give an array of rows")
        if spec.dtype == "bytes" and array.dtype.kind not in "OS":
            if spec.name not in self.decoded:
                raise BadRequestError(f"{spec.name!r} is {array.dtype}, and has to be encoded images")
            return self._tensors(spec.name, array, *self.decoded[spec.name])
        if spec.dtype in {"bytes", "str"}:
            return [_content(spec, value) for value in array.reshape(len(array), -1)[:, 0]] if array.size else []
        return self._tensors(spec.name, array, spec.dtype, spec.shape[1:])

    def _tensors(self, name: str, array: NDArray[Any], dtype: str, shape: tuple[int, ...]) -> list[NDArray[Any]]:
        if array.dtype != np.dtype(dtype):
            raise BadRequestError(f"{name!r} is {array.dtype}, and has to be {dtype}")
        fits = array.ndim == 1 + len(shape) and all(
            want in (-1, size) for want, size in zip(shape, array.shape[1:], strict=True)
        )
        if not fits:
            raise BadRequestError(f"{name!r} has the shape {array.shape}, and has to have {(-1, *shape)}")
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise BadRequestError(f"{name!r} has numbers that are not finite")
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
                raise BadRequestError(f"{spec.name!r} is not UTF-8: {error}") from error
        elif not content:
            raise BadRequestError(f"{spec.name!r} has an image of no bytes")
        return np.frombuffer(content, np.uint8)
    what = "a text" if spec.dtype == "str" else "the bytes of an encoded image"
    raise BadRequestError(f"{spec.name!r} has a {type(value).__name__}, and has to have {what}")
