"""Columns of a shard, and their groups: the inputs and labels of a network."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["TensorColumn", "TensorGroup"]


@dataclass(frozen=True, slots=True)
class TensorColumn:
    """Column of a shard.

    ``dtype`` is numpy's type of one number: ``"float32"``, ``"int64"`` or ``"uint8"``; ``shape`` that of one row's
    tensor, which is stored flat in C order, ``()`` for a number.
    """

    name: str
    dtype: str
    shape: tuple[int, ...] = ()

    @property
    def size(self) -> int:
        """Number of values of one row."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes of one row."""
        return self.size * np.dtype(self.dtype).itemsize


@dataclass(frozen=True, slots=True)
class TensorGroup:
    """Input or label of a network.

    Columns are concatenated in their order as ``float32``, or as ``int64`` if all of them are integers. If ``joined``,
    a single column is treated like several, so that a number becomes a vector; by default it keeps its type and shape.

    Examples
    --------
    >>> numbers = TensorColumn("age", "float32"), TensorColumn("codes", "float32", (7,))
    >>> TensorGroup("features", numbers).shape
    (8,)
    >>> TensorGroup("ids", (TensorColumn("user", "int64"), TensorColumn("film", "int64"))).dtype
    'int64'
    >>> label = TensorColumn("income", "int64")
    >>> TensorGroup("income", (label,)).shape, TensorGroup("income", (label,), joined=True).shape
    ((), (1,))
    """

    name: str
    columns: tuple[TensorColumn, ...]
    joined: bool = False

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Make a group from plain data, such as ``dataclasses.asdict`` of one, or its JSON."""
        columns = (TensorColumn(each["name"], each["dtype"], tuple(each["shape"])) for each in data["columns"])
        return cls(data["name"], tuple(columns), data["joined"])

    @property
    def side_by_side(self) -> bool:
        """True if the columns form one vector."""
        return self.joined or len(self.columns) > 1

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one row."""
        return (sum(column.size for column in self.columns),) if self.side_by_side else self.columns[0].shape

    @property
    def dtype(self) -> str:
        """Name of numpy's type of one number."""
        if not self.side_by_side:
            return self.columns[0].dtype
        return "int64" if {column.dtype for column in self.columns} == {"int64"} else "float32"

    @property
    def nbytes(self) -> int:
        """Bytes of one row in memory."""
        return math.prod(self.shape) * np.dtype(self.dtype).itemsize
