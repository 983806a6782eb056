"""The types of all tables of a program, for an input of one type."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ._arithmetic import Above, ArgMax, Arithmetic, Cast, Clip, Compare, Linear, Sigmoid
from ._categories import Encode, Match, OneHot, Recode
from ._codes import CodeLookup, Replace
from ._columns import Concatenate, Finite, Impute, Select
from ._constants import Constant
from ._curves import Bins, Missing, Monomials, PowerTransform, Quantiles, Splines, Ufunc
from ._elementwise import Broadcast, Products
from ._functions import Function, Like, Within
from ._program import INPUT
from ._trees import Trees

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ._operator import Operator
    from ._program import Program

__all__ = ["types_of"]

_KEEP = (
    *(Arithmetic, Clip, CodeLookup, Compare, Finite, Function, Impute, Monomials, PowerTransform, Products),
    *(Quantiles, Replace, Select, Sigmoid, Splines, Ufunc, Within),
)


def types_of(program: Program, dtype: str) -> dict[str, str | None]:
    """Name the type of each table by its node, ``None`` where it is not known here."""
    known: dict[str, str | None] = {INPUT: dtype}
    for node in program.nodes:
        known[node.name] = _type_of(node.operator, [known[name] for name in node.inputs])
    return known


def _type_of(operator: Operator, inputs: Sequence[str | None]) -> str | None:
    if isinstance(operator, _KEEP):
        return inputs[0]
    rule = _OWN.get(type(operator))
    return None if rule is None else rule(operator, inputs)


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
    Broadcast: lambda operator, _: operator.row.dtype.name,
    Cast: lambda operator, _: operator.dtype,
    Concatenate: lambda _, inputs: _widest(inputs),
    Constant: lambda operator, _: operator.values.dtype.name,
    Encode: lambda _, __: "int64",
    Like: lambda _, inputs: inputs[1],
    Linear: lambda operator, inputs: _widest([inputs[0], operator.weights.dtype.name, operator.bias.dtype.name]),
    Match: lambda _, __: "int64",
    Missing: lambda _, __: "float64",
    OneHot: lambda operator, _: operator.dtype,
    Recode: lambda operator, _: operator.values.dtype.name,
    Trees: lambda operator, _: operator.value.dtype.name,
}
