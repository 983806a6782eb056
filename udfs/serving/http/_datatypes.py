"""Names of the Open Inference Protocol for types of tensors."""

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
"""Types of fixed size; ``BYTES`` is the only other one."""

_NAMES = {dtype: name for name, dtype in NUMPY.items()}
_OBJECTS = "OSU"


def datatype_of_spec(spec: TensorSpec) -> str:
    """Name the protocol's type of a model's input or output.

    Raises
    ------
    InvalidArgumentError
        The protocol has no such type.
    """
    return BYTES if spec.dtype in {"bytes", "str"} else _name(np.dtype(spec.dtype), spec.name)


def datatype_of_array(array: np.ndarray, name: str) -> str:
    """Name the protocol's type of an array; one of objects, bytes or texts is ``BYTES``.

    Raises
    ------
    InvalidArgumentError
        The protocol has no such type.
    """
    return BYTES if array.dtype.kind in _OBJECTS else _name(array.dtype.newbyteorder("="), name)


def _name(dtype: np.dtype, name: str) -> str:
    if dtype not in _NAMES:
        raise InvalidArgumentError(f"tensor {name!r} is {dtype}, which the protocol has not: {', '.join(NUMPY)}")
    return _NAMES[dtype]
