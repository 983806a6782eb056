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

__all__ = ["as_array", "as_head", "finite", "real_number", "whole_number", "whole_numbers"]


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


def whole_numbers(name: str, values: Iterable[Any]) -> tuple[int, ...]:
    """Read a sequence of ints."""
    try:
        entries = tuple(values)
    except TypeError:
        raise InvalidArgumentError(f"{name}={values!r}: a sequence of whole numbers") from None
    return tuple(whole_number(name, value) for value in entries)


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
    return value.detach().cpu().numpy() if hasattr(value, "detach") and hasattr(value, "cpu") else value


def finite(name: str, array: NDArray[Any]) -> NDArray[Any]:
    """Return an array, or refuse it where an element is NaN or infinite."""
    if np.issubdtype(array.dtype, np.floating) and not np.isfinite(array).all():
        bad = int(np.size(array) - np.isfinite(array).sum())
        raise InvalidArgumentError(f"{name} has {bad} elements that are NaN or infinite: fill or clip them first")
    return array
