"""Outputs of a function: names, numbers and texts of a batch, split into rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from optimizer.errors import CerebroError
from udfs.serving._router import TensorSpec

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Arrays = dict[str, NDArray[Any]]

__all__ = ["OutputError", "output_specs", "split_outputs"]

# Largest item size in bytes, and bytes of a row, of outputs that can be sent.
_WIDEST = 8
_LARGEST_ROW = 16 << 20


class OutputError(CerebroError, ValueError):
    """A function returned outputs that cannot be sent."""


def split_outputs(outputs: Any, count: int, session: str) -> list[Arrays]:
    """Return the outputs of each row of a batch, without a batch axis.

    Parameters
    ----------
    outputs : mapping, DataFrame or array
        Outputs by name, each with the batch in front; an array is named ``output``. Numbers as names become texts.
    count : int
        Rows of the batch.
    session : str
        Name of the session, for messages.

    Returns
    -------
    list of dict of str to array
        Numbers of at most 64 bits, and texts or bytes as arrays of objects.

    Raises
    ------
    OutputError
        An output has another length, type or name, or is too large.

    Examples
    --------
    >>> split_outputs({0: np.array([0.5, 1.0]), "label": np.array(["cat", "dog"])}, 2, "pets")[1]
    {'0': array(1.), 'label': array('dog', dtype=object)}
    """
    arrays: Arrays = {}
    for key, value in _named(outputs, session):
        name = _name(key, session)
        if name in arrays:
            raise OutputError(f"Names of the outputs of {session!r} must be unique as texts, got {name!r} twice.")
        arrays[name] = _array(value, name, session)
        _check(arrays[name], name, count, session)
    if not arrays:
        raise OutputError(f"The outputs of {session!r} must have at least one array, got none.")
    # The ellipsis keeps a single number an array.
    return [{name: array[place, ...] for name, array in arrays.items()} for place in range(count)]


def output_specs(answers: Sequence[Mapping[str, NDArray[Any]]]) -> tuple[TensorSpec, ...]:
    """Describe the outputs of some rows.

    Parameters
    ----------
    answers : sequence of dict of str to array
        Outputs of at least one row, without a batch axis, as :func:`split_outputs` returns them.

    Returns
    -------
    tuple of TensorSpec
        Description of each output of the first row, with an open batch axis in front. A size that differs between the
        rows is open, -1.

    Examples
    --------
    >>> output_specs([{"y": np.zeros(size, np.float32)} for size in (1, 2)])
    (TensorSpec(name='y', dtype='float32', shape=(-1, -1), missing=False),)
    """
    specs = []
    for name, first in answers[0].items():
        arrays = [answer[name] for answer in answers if name in answer and answer[name].ndim == first.ndim]
        sizes = zip(*(array.shape for array in arrays), strict=True)
        shape = tuple(size[0] if len(set(size)) == 1 else -1 for size in sizes)
        dtype = first.dtype.name
        if first.dtype == object:
            dtype = "bytes" if any(isinstance(value, bytes) for value in first.flat) else "str"
        specs.append(TensorSpec(name, dtype, (-1, *shape)))
    return tuple(specs)


def _named(outputs: Any, session: str) -> list[tuple[Any, Any]]:
    if isinstance(outputs, Mapping) or hasattr(outputs, "columns"):  # a DataFrame has items too
        return list(outputs.items())
    if isinstance(outputs, np.ndarray):
        return [("output", outputs)]
    raise OutputError(
        f"The outputs of {session!r} must be a mapping of names to arrays, got {type(outputs).__name__}. Return "
        '{"output": array}.'
    )


def _name(key: Any, session: str) -> str:
    if isinstance(key, str | int | float | np.generic) and str(key):
        return str(key)
    raise OutputError(f"Names of the outputs of {session!r} must be non-empty texts or numbers, got {key!r}.")


def _array(value: Any, name: str, session: str) -> NDArray[Any]:
    """Convert an output to numbers, or to objects that are all str or all bytes."""
    try:
        array = np.asarray(value)
        if array.dtype.kind in "US":
            return array.astype(object)
        if array.dtype == object and not any(isinstance(element, str | bytes) for element in array.flat):
            array = np.array(array.tolist())  # numbers in a column of objects
    except ValueError as error:
        raise OutputError(f"Output {name!r} of {session!r} must have rows of the same shape: {error}.") from error
    return array


def _is_texts(array: NDArray[Any]) -> bool:
    """Return whether an array has only texts, or only bytes."""
    return array.dtype == object and (
        all(isinstance(element, str) for element in array.flat)
        or all(isinstance(element, bytes) for element in array.flat)
    )


def _check(array: NDArray[Any], name: str, count: int, session: str) -> None:
    if array.ndim == 0 or len(array) != count:
        raise OutputError(
            f"Output {name!r} of {session!r} must have one row per record, got the shape {array.shape} for a batch of "
            f"{count}."
        )
    texts = _is_texts(array)
    nbytes = sum(map(len, array.flat)) if texts else array.nbytes
    numbers = array.dtype.kind in "biuf" and array.dtype.itemsize <= _WIDEST
    if not (texts or numbers) or nbytes > count * _LARGEST_ROW:
        raise OutputError(
            f"Output {name!r} of {session!r} must be texts, bytes or numbers of at most 64 bits, and {_LARGEST_ROW:,} "
            f"bytes per row, got {array.dtype} of {nbytes:,} bytes."
        )
