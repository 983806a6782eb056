"""Specification of a tensor: shape and element type of one record."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["TensorSpec"]


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """Shape and element type of one record of a tensor.

    Parameters
    ----------
    shape : tuple of int
        Sizes of the axes, without the batch axis.
    dtype : str
        Numpy name of the element type. Default ``"float32"``.

    Examples
    --------
    >>> TensorSpec((3, 224, 224))
    TensorSpec(shape=(3, 224, 224), dtype='float32')
    """

    shape: tuple[int, ...]
    dtype: str = "float32"
