"""The types of all tables of a program, for an input of one type."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from optimizer.compiling._arithmetic import (
    Above,
    ArgMax,
    Arithmetic,
    Cast,
    Clip,
    Compare,
    Linear,
    Normalise,
    Sigmoid,
    Softmax,
)
from optimizer.compiling._categories import Encode, Known, OneHot, Recode
from optimizer.compiling._columns import Concatenate, Finite, Impute, Select
from optimizer.compiling._constants import Constant
from optimizer.compiling._curves import Bins, Missing, Monomials, PowerTransform, Quantiles, Ufunc
from optimizer.compiling._distances import Distances
from optimizer.compiling._elementwise import Choose
from optimizer.compiling._functions import After, Combine, Function, Like, Reject, Within
from optimizer.compiling._lookups import CodeLookup, Replace
from optimizer.compiling._nearest_fill import NearestFill
from optimizer.compiling._program import INPUT
from optimizer.compiling._reading_marks import READING_MARKS
from optimizer.compiling._trees import Trees

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from optimizer.compiling._operator import Operator
    from optimizer.compiling._program import Program

__all__ = ["FLOATS", "types_of"]

FLOATS = frozenset({"float32", "float64"})
"""Types of floats, by name."""

_KEEP = (
    *(After, Arithmetic, Compare, Finite, Impute, Known, Missing, Monomials),
    *(NearestFill, PowerTransform, Quantiles, Reject, Replace, Select, Ufunc, Within),
    *READING_MARKS,
)
# Of whole numbers they make floats, some of them float32.
_KEEP_FLOATS = (Clip, Function, Normalise, Sigmoid, Softmax)


def types_of(program: Program, dtype: str) -> dict[str, str | None]:
    """Name the type of each table by its node, ``None`` where it is not known here."""
    known: dict[str, str | None] = {INPUT: dtype}
    for node in program.nodes:
        known[node.name] = _type_of(node.operator, [known[name] for name in node.inputs])
    return known


def _type_of(operator: Operator, inputs: Sequence[str | None]) -> str | None:
    if isinstance(operator, _KEEP):
        return inputs[0]
    if isinstance(operator, _KEEP_FLOATS):
        return inputs[0] if inputs[0] in FLOATS else None
    rule = _OWN.get(type(operator))
    return None if rule is None else rule(operator, inputs)


def _looked_up(operator: CodeLookup, name: str | None) -> str | None:
    # Of whole numbers it makes float64, the type of its tables; without a column nothing was looked up.
    return "float64" if name == "int64" and len(operator.column) else name


def _widest(names: Sequence[str | None]) -> str | None:
    # As torch has it, float32 beside int64 is float32: not as numpy has it.
    if None in names:
        return None
    floats = [name for name in names if name is not None and name.startswith("float")]
    if floats:
        return max(floats, key=lambda name: np.dtype(name).itemsize)
    return names[0] if len(set(names)) == 1 else None


_OWN: Mapping[type[Operator], Callable[[Any, Sequence[str | None]], str | None]] = {
    Above: lambda _, __: "int64",
    ArgMax: lambda _, __: "int64",
    Bins: lambda _, __: "int64",
    Cast: lambda operator, _: operator.dtype,
    CodeLookup: lambda operator, inputs: _looked_up(operator, inputs[0]),
    Choose: lambda _, inputs: _widest(inputs[1:]),
    Combine: lambda _, inputs: _widest(inputs),
    Concatenate: lambda _, inputs: _widest(inputs),
    Constant: lambda operator, _: operator.values.dtype.name,
    Distances: lambda operator, inputs: _widest([inputs[0], operator.points.dtype.name]),
    Encode: lambda _, __: "int64",
    Like: lambda _, inputs: inputs[1],
    Linear: lambda operator, inputs: _widest([inputs[0], operator.weights.dtype.name, operator.bias.dtype.name]),
    OneHot: lambda operator, _: operator.dtype,
    Recode: lambda operator, _: operator.values.dtype.name,
    Trees: lambda operator, _: operator.value.dtype.name,
}
