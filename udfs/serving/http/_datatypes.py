"""Type names of the Open Inference Protocol."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from optimizer.errors import InvalidArgumentError

if TYPE_CHECKING:
    from udfs.serving import TensorSpec

__all__ = ["BYTES", "NUMPY", "datatype_of_array", "datatype_of_spec"]

BYTES = "BYTES"

NUMPY = {
    "BOOL": np.dtype(np.bool_),
    **{f"{sign}INT{bits}": np.dtype(f"{sign.lower()}int{bits}") for sign in ("", "U") for bits in (8, 16, 32, 64)},
    **{f"FP{bits}": np.dtype(f"float{bits}") for bits in (16, 32, 64)},
}
"""Types of fixed size; the only other type is ``BYTES``."""

_NAMES = {dtype: name for name, dtype in NUMPY.items()}
_OBJECTS = "OSU"


def datatype_of_spec(spec: TensorSpec) -> str:
    """Return the protocol's type of an input or output.

    Raises
    ------
    InvalidArgumentError
        The protocol has no such type.
    """
    return BYTES if spec.dtype in {"bytes", "str"} else _name(np.dtype(spec.dtype), spec.name)


def datatype_of_array(array: np.ndarray, name: str) -> str:
    """Return the protocol's type of an array; ``BYTES`` for objects, bytes and texts.

    Raises
    ------
    InvalidArgumentError
        The protocol has no such type.
    """
    return BYTES if array.dtype.kind in _OBJECTS else _name(array.dtype.newbyteorder("="), name)


def _name(dtype: np.dtype, name: str) -> str:
    if dtype not in _NAMES:
        raise InvalidArgumentError(f"Tensor {name!r} must be one of {', '.join(NUMPY)} for the protocol, got {dtype}.")
    return _NAMES[dtype]
