"""Arguments of an explanation: accepted as numpy and torch give them, or refused with the way out."""

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
    "as_head",
    "as_image",
    "as_inputs",
    "check_callable",
    "finite",
    "ranges",
    "real_number",
    "whole_number",
    "whole_numbers",
]

# Axes of an image with its channels.
_IMAGE = 3


def whole_number(name: str, value: Any, least: int | None = None) -> int:
    """Read an int, also numpy's; refuse a bool, a fraction and anything that is no number.

    Examples
    --------
    >>> import numpy as np
    >>> whole_number("stride", np.int64(4), 1)
    4
    """
    try:
        number = operator.index(value)
    except TypeError:
        number = None
    if number is None or isinstance(value, bool | np.bool_):
        raise InvalidArgumentError(f"{name}={value!r}: a whole number, as {name}={least or 1}")
    if least is not None and number < least:
        raise InvalidArgumentError(f"{name}={value!r}: at least {least}")
    return number


def whole_numbers(name: str, values: Iterable[Any], least: int | None = None) -> tuple[int, ...]:
    """Read a sequence of ints."""
    try:
        entries = tuple(values)
    except TypeError:
        raise InvalidArgumentError(f"{name}={values!r}: a sequence of whole numbers") from None
    return tuple(whole_number(name, value, least) for value in entries)


def ranges(name: str, values: Any, axes: int) -> tuple[tuple[int, ...], ...]:
    """Read a range of elements for each axis, as pairs of start and end.

    Examples
    --------
    >>> ranges("region", ([0, 8], [4, 12]), 2)
    ((0, 8), (4, 12))
    """
    try:
        pairs = [tuple(pair) for pair in values]
    except TypeError:
        pairs = []
    if len(pairs) != axes or any(len(pair) != 2 for pair in pairs):  # start and end
        example = ", ".join(["(0, 8)"] * axes) + ("," if axes == 1 else "")
        raise InvalidArgumentError(
            f"{name}={values!r}: a pair of start and end for each of {axes} axes, as {name}=({example})"
        )
    return tuple(whole_numbers(name, pair) for pair in pairs)


def check_callable(name: str, value: Any, gets: str) -> None:
    """Refuse what is given in place of a function that is called while a heat map is computed."""
    if value is not None and not callable(value):
        raise InvalidArgumentError(f"{name}={value!r}: a function of {gets}, as {name}=print")


def real_number(name: str, value: Any) -> float:
    """Read a finite number, also numpy's; refuse a bool and anything that is no number.

    Examples
    --------
    >>> import numpy as np
    >>> real_number("tau", np.float32(0.5))
    0.5
    """
    if isinstance(value, bool | np.bool_) or not isinstance(value, Real) or not math.isfinite(value):
        raise InvalidArgumentError(f"{name}={value!r}: a finite number, as {name}=0.5")
    return float(value)


def as_head(value: Any) -> str | int | None:
    """Read an output's name or index."""
    return value if value is None or isinstance(value, str) else whole_number("head", value, 0)


def as_array(value: Any) -> Any:
    """Turn a tensor of torch into an array, also one with a gradient or on an accelerator; leave the rest as it is."""
    if not (hasattr(value, "detach") and hasattr(value, "cpu")):
        return value
    tensor = value.detach().cpu()
    return (tensor.float() if str(tensor.dtype) == "torch.bfloat16" else tensor).numpy()  # numpy has no bfloat16


def as_image(value: Any) -> Any:
    """Turn a tensor, or nested lists of numbers, into an array of one image; bytes, paths and structs stay.

    Raises
    ------
    InvalidArgumentError
        Lists of unequal lengths, or an array with an axis of records.
    """
    image = as_array(value)
    if isinstance(image, list):
        image = _nested("image", image)
    if isinstance(image, np.ndarray) and image.ndim == _IMAGE + 1:
        raise InvalidArgumentError(
            f"image of shape {image.shape}: the first axis is one of records, and one image is explained at a time; "
            "pass image[0]"
        )
    return image


def as_inputs(inputs: Any) -> list[NDArray[Any]]:
    """Turn the inputs of a network, an array or tensor or a sequence of them, into arrays; floats become float32.

    Raises
    ------
    InvalidArgumentError
        Nested lists: a list is one of a network's inputs, and an array one input.
    """
    given = [as_array(each) for each in (inputs if isinstance(inputs, list | tuple) else [inputs])]
    for each in given:
        if not hasattr(each, "shape"):
            raise InvalidArgumentError(
                f"inputs with a {type(each).__name__} in the place of an array: pass one input as an array, as "
                "np.asarray(inputs, np.float32), or several as a list of arrays"
            )
    if not given:
        raise InvalidArgumentError("inputs=[]: an array for each input of the network")
    arrays = [np.asarray(each) for each in given]
    return [array.astype(np.float32) if np.issubdtype(array.dtype, np.floating) else array for array in arrays]


def _nested(name: str, lists: list[Any]) -> NDArray[np.float32]:
    try:
        return np.asarray(lists, np.float32)
    except (TypeError, ValueError):
        raise InvalidArgumentError(
            f"{name}: lists of unequal lengths, or of other things than numbers; pass an array of the network's input"
        ) from None


def finite(name: str, array: NDArray[Any]) -> NDArray[Any]:
    """Return an array, or refuse it where an element is NaN or infinite."""
    if np.issubdtype(array.dtype, np.floating) and not np.isfinite(array).all():
        bad = int(np.size(array) - np.isfinite(array).sum())
        raise InvalidArgumentError(f"{name} has {bad} elements that are NaN or infinite: fill or clip them first")
    return array
