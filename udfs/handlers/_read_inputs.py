"""Inputs of a model as a session reads them: eight-bit pixels become floating-point numbers."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from udfs.tensors import TensorSpec

__all__ = ["read_specs", "zero_rows"]


def read_specs(inputs: Sequence[TensorSpec]) -> list[TensorSpec]:
    """Return the specifications of inputs after they are read.

    Examples
    --------
    >>> from udfs.tensors import TensorSpec
    >>> read_specs([TensorSpec((2,), "uint8"), TensorSpec((3,), "int64")])
    [TensorSpec(shape=(2,), dtype='float32'), TensorSpec(shape=(3,), dtype='int64')]
    """
    return [replace(spec, dtype="float32") if spec.dtype == "uint8" else spec for spec in inputs]


def zero_rows(inputs: Sequence[TensorSpec]) -> list[NDArray[Any]]:
    """Make a row of zeros for each input, of shape ``(1, *spec.shape)``."""
    return [np.zeros((1, *spec.shape), spec.dtype) for spec in read_specs(inputs)]
