"""Validation of arguments: readers that accept values of numpy and torch, and refuse others with a remedy."""

from __future__ import annotations

import math
import operator
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np

from vista_spark.errors import InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

__all__ = [
    "as_array",
    "as_image",
    "as_inputs",
    "check_callable",
    "check_finite",
    "read_extents",
    "read_head",
    "read_integer",
    "read_integers",
    "read_number",
    "read_ranges",
]

# Axes of an image with its channels.
_IMAGE = 3


def read_integer(name: str, value: Any, least: int | None = None) -> int:
    """Return a Python int for an int, also numpy's; refuse a bool, a fraction and anything that is no number.

    Examples
    --------
    >>> import numpy as np
    >>> read_integer("stride", np.int64(4), 1)
    4
    """
    try:
        number = operator.index(value)
    except TypeError:
        number = None
    if number is None or isinstance(value, bool | np.bool_):
        raise InvalidArgumentError(f"{name} must be an integer, got {value!r}")
    if least is not None and number < least:
        raise InvalidArgumentError(f"{name} must be at least {least}, got {value!r}")
    return number


def read_integers(name: str, values: Iterable[Any], least: int | None = None) -> tuple[int, ...]:
    """Return a tuple of ints for a sequence of them."""
    try:
        entries = tuple(values)
    except TypeError:
        raise InvalidArgumentError(f"{name} must be a sequence of integers, got {values!r}") from None
    return tuple(read_integer(name, value, least) for value in entries)


def read_extents(name: str, value: Any) -> int | tuple[int, ...]:
    """Return a positive int, or a tuple of them where the value has an entry per axis."""
    if isinstance(value, str) or not hasattr(value, "__len__"):
        return read_integer(name, value, 1)
    return read_integers(name, value, 1)


def read_ranges(name: str, values: Any, axes: int) -> tuple[tuple[int, ...], ...]:
    """Return a pair of start and end for each axis.

    Examples
    --------
    >>> read_ranges("region", ([0, 8], [4, 12]), 2)
    ((0, 8), (4, 12))
    """
    try:
        pairs = [tuple(pair) for pair in values]
    except TypeError:
        pairs = []
    if len(pairs) != axes or any(len(pair) != 2 for pair in pairs):
        example = ", ".join(["(0, 8)"] * axes) + ("," if axes == 1 else "")
        raise InvalidArgumentError(
            f"{name} must be a pair of start and end for each of {axes} axes, such as ({example}), got {values!r}"
        )
    return tuple(read_integers(name, pair) for pair in pairs)


def check_callable(name: str, value: Any, argument: str) -> None:
    """Refuse a callback that is not callable."""
    if value is not None and not callable(value):
        raise InvalidArgumentError(f"{name} must be a function of {argument}, such as print, got {value!r}")


def read_number(name: str, value: Any) -> float:
    """Return a float for a finite number, also numpy's; refuse a bool and anything that is no number.

    Examples
    --------
    >>> import numpy as np
    >>> read_number("tau", np.float32(0.5))
    0.5
    """
    if isinstance(value, bool | np.bool_) or not isinstance(value, Real) or not math.isfinite(value):
        raise InvalidArgumentError(f"{name} must be a finite number, got {value!r}")
    return float(value)


def read_head(value: Any) -> str | int | None:
    """Return an output's name or index."""
    return value if value is None or isinstance(value, str) else read_integer("head", value, 0)


def as_array(value: Any) -> Any:
    """Convert a tensor of torch to an array, also one with a gradient or on an accelerator; return others unchanged."""
    if not (hasattr(value, "detach") and hasattr(value, "cpu")):
        return value
    tensor = value.detach().cpu()
    return (tensor.float() if str(tensor.dtype) == "torch.bfloat16" else tensor).numpy()  # numpy has no bfloat16


def as_image(value: Any) -> Any:
    """Convert a tensor, or nested lists of numbers, to an array of one image; leave bytes, paths and structs unchanged.

    Raises
    ------
    InvalidArgumentError
        Lists of unequal lengths, or an array with an axis of records.
    """
    image = as_array(value)
    if isinstance(image, list):
        try:
            image = np.asarray(image, np.float32)
        except (TypeError, ValueError):
            raise InvalidArgumentError(
                "image must be an array or nested lists of numbers of equal lengths, got lists that are not; pass an "
                "array of the network's input"
            ) from None
    if isinstance(image, np.ndarray) and image.ndim == _IMAGE + 1:
        raise InvalidArgumentError(
            f"image must be one image, got an array of shape {image.shape}, whose first axis is one of records; pass "
            "image[0]"
        )
    return image


def as_inputs(inputs: Any) -> list[NDArray[Any]]:
    """Convert the inputs of a network, an array or tensor or a sequence of them, to arrays; floats become float32.

    Raises
    ------
    InvalidArgumentError
        Nested lists: a list has an entry per input of the network, and an input is an array.
    """
    entries = [as_array(each) for each in (inputs if isinstance(inputs, list | tuple) else [inputs])]
    for each in entries:
        if not hasattr(each, "shape"):
            raise InvalidArgumentError(
                f"inputs must be an array or a list of arrays, got a {type(each).__name__}; pass one input as "
                "np.asarray(inputs, np.float32)"
            )
    if not entries:
        raise InvalidArgumentError("inputs must have an array for each input of the network, got []")
    arrays = [np.asarray(each) for each in entries]
    return [array.astype(np.float32) if np.issubdtype(array.dtype, np.floating) else array for array in arrays]


def check_finite(name: str, array: NDArray[Any]) -> None:
    """Refuse an array with an element that is NaN or infinite."""
    if np.issubdtype(array.dtype, np.floating) and not np.isfinite(array).all():
        bad = int(np.size(array) - np.isfinite(array).sum())
        raise InvalidArgumentError(f"{name} must be finite, got {bad} NaN or infinite elements; fill or clip them")
