"""Ranges of columns: whether NaN or an infinity may come, and the greatest magnitude.

Inputs are finite, up to 1e30 in magnitude, or NaN: the contract of compiled pipelines. Infinities are followed from the
input to the first check that refuses them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from optimizer.compiling._arithmetic import Above, ArgMax, Arithmetic, Cast, Clip, Compare
from optimizer.compiling._categories import Encode, OneHot, Recode
from optimizer.compiling._columns import Concatenate, Finite, Impute, Select
from optimizer.compiling._constants import Constant
from optimizer.compiling._curves import Bins, Missing, Monomials, Ufunc
from optimizer.compiling._functions import After, Function, Reject, Within
from optimizer.compiling._lookups import CodeLookup, Replace
from optimizer.compiling._program import INPUT
from optimizer.compiling.rewriting._types import FLOATS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from optimizer.compiling._operator import Operator
    from optimizer.compiling._program import Program

__all__ = ["LARGEST_INPUT", "Ranges", "is_invertible", "largest_of", "ranges_of", "rounding_function"]

LARGEST_INPUT = 1e30
"""Greatest magnitude of an input for which results are defined."""

_ROUNDINGS = frozenset({"ceil", "floor", "negative", "positive", "rint", "round", "trunc"})


@dataclass(frozen=True, slots=True)
class Ranges:
    """Value ranges of the columns of a table, in rows that no check has refused so far.

    Parameters
    ----------
    nan, infinite : bool arrays of shape (columns,)
        Whether NaN, or an infinity, may come.
    largest : float64 array of shape (columns,)
        Greatest magnitude of a finite number.
    """

    nan: NDArray[np.bool_]
    infinite: NDArray[np.bool_]
    largest: NDArray[np.float64]

    @classmethod
    def unknown(cls, width: int, largest: float = np.inf) -> Ranges:
        """Return ranges of columns that may hold anything up to a magnitude."""
        return cls(np.ones(width, np.bool_), np.ones(width, np.bool_), np.full(width, largest))

    @classmethod
    def finite(cls, largest: Any, width: int) -> Ranges:
        """Return ranges of columns of finite numbers up to a magnitude, or one for each column."""
        none = np.zeros(width, np.bool_)
        return cls(none, none, np.broadcast_to(np.asarray(largest, np.float64), width))

    def select(self, columns: NDArray[Any]) -> Ranges:
        """Return the ranges of some columns, by place or by mask."""
        return Ranges(self.nan[columns], self.infinite[columns], self.largest[columns])

    def beyond(self, check: Finite, dtype: str | None) -> NDArray[np.bool_]:
        """Return whether a check may refuse a finite number, since it looks in a type that does not have it."""
        limit = largest_of(dtype if check.dtype == "as given" else check.dtype)
        over: NDArray[np.bool_] = (self.largest > limit) & (not check.infinite)
        return over

    def fails(self, check: Finite, dtype: str | None) -> NDArray[np.bool_]:
        """Return whether a check may refuse a number, by column of a table of a type."""
        infinite = self.infinite & (not check.infinite)
        fails: NDArray[np.bool_] = (self.nan & (not check.nan)) | infinite | self.beyond(check, dtype)
        return fails


def largest_of(dtype: str | None) -> float:
    """Return the greatest number of a type of floats: of float32 where the type is unknown."""
    return float(np.finfo(np.float64 if dtype == "float64" else np.float32).max)


def ranges_of(program: Program, types: Mapping[str, str | None]) -> dict[str, Ranges]:
    """Return the ranges of all tables of a program, by the name of their node."""
    known = {INPUT: Ranges.unknown(program.width, LARGEST_INPUT)}
    for node in program.nodes:
        inputs = [known[name] for name in node.inputs]
        result = _ranges(node.operator, inputs, types[node.inputs[0]] if node.inputs else None)
        if result is None:
            result = Ranges.unknown(program.widths[node.name])
        elif types[node.name] in FLOATS:
            over = result.largest > largest_of(types[node.name])
            result = Ranges(result.nan, result.infinite | over, result.largest)
        known[node.name] = result
    return known


def is_invertible(operator: Arithmetic, dtype: str | None) -> NDArray[np.bool_]:
    """Return whether each column of arithmetic keeps NaN, infinities and finite numbers what they are."""
    with np.errstate(over="ignore"):
        operand = operator.operand.astype(dtype or np.float64) if operator.rounded else operator.operand
    finite: NDArray[np.bool_] = np.isfinite(operand)
    return finite & (operand != 0) if operator.kind in {"multiply", "divide"} else finite


def rounding_function(operator: Operator) -> str | None:
    """Return the name of a function that rounds or turns the sign of each number; ``None`` for other operators."""
    name = operator.name if isinstance(operator, Ufunc) else operator.kind if isinstance(operator, Function) else None
    return name if name in _ROUNDINGS else None


def _ranges(operator: Operator, inputs: Sequence[Ranges], dtype: str | None) -> Ranges | None:
    rule = _RULES.get(type(operator))
    if rule is not None:
        return rule(operator, inputs, dtype)
    if inputs and rounding_function(operator):
        return Ranges(inputs[0].nan, inputs[0].infinite, inputs[0].largest + 1)
    return None


def _checked(operator: Finite, known: Ranges, dtype: str | None) -> Ranges:
    limit = largest_of(dtype if operator.dtype == "as given" else operator.dtype)
    largest = known.largest if operator.infinite else np.minimum(known.largest, limit)
    return Ranges(known.nan & operator.nan, known.infinite & operator.infinite, largest)


def _arithmetic(operator: Arithmetic, known: Ranges, dtype: str | None) -> Ranges:
    operand = np.abs(operator.operand.astype(np.float64))
    with np.errstate(all="ignore"):
        largest = {
            "add": known.largest + operand,
            "subtract": known.largest + operand,
            "multiply": known.largest * operand,
            "divide": known.largest / operand,
        }[operator.kind]
    valid = is_invertible(operator, dtype)
    return Ranges(known.nan | ~valid, known.infinite | ~valid, np.where(valid, largest, np.inf))


def _cast(operator: Cast, known: Ranges, dtype: str | None) -> Ranges:
    if operator.dtype in FLOATS and dtype in FLOATS:
        return known
    # A cast of NaN or of an infinity to a whole number gives some number.
    lost = known.nan | known.infinite
    return Ranges.finite(np.where(lost, 2.0**63, np.minimum(known.largest, 2.0**63)), len(lost))


def _imputed(operator: Impute, known: Ranges) -> Ranges:
    empty = np.isnan(operator.values)
    largest = np.fmax(known.largest, np.abs(operator.values))
    return Ranges(empty | (known.nan & (not np.isnan(operator.missing))), known.infinite, largest)


def _replaced(operator: Replace, known: Ranges) -> Ranges:
    largest = np.fmax(known.largest, np.abs(operator.value))
    return Ranges(known.nan | np.isnan(operator.value), known.infinite | np.isinf(operator.value), largest)


def _looked_up(operator: CodeLookup, known: Ranges) -> Ranges:
    columns = np.arange(len(operator.column))
    places = np.concatenate([np.repeat(columns, operator.count), columns, columns])
    missing = np.where(known.nan[operator.column], operator.missing, operator.other)
    return _tables(np.concatenate([operator.value, operator.other, missing]), places, len(columns))


def _recoded(operator: Recode) -> Ranges:
    each = operator.values.shape[1]
    groups = np.repeat(np.arange(len(operator.sizes)), operator.sizes)
    places = groups[:, None] * each + np.arange(each)
    return _tables(operator.values.astype(np.float64).reshape(-1), places.reshape(-1), len(operator.sizes) * each)


def _tables(values: NDArray[np.float64], places: NDArray[np.int64], width: int) -> Ranges:
    """Return ranges of columns that hold some values, given with the place of their column."""
    nan, infinite, largest = np.zeros(width, np.bool_), np.zeros(width, np.bool_), np.zeros(width)
    nan[places[np.isnan(values)]] = True
    infinite[places[np.isinf(values)]] = True
    np.fmax.at(largest, places, np.abs(values))
    return Ranges(nan, infinite, largest)


def _products(operator: Monomials, known: Ranges) -> Ranges:
    nan, infinite = (np.concatenate([[False], mask]) for mask in (known.nan, known.infinite))
    largest = np.concatenate([[1.0], known.largest])
    ends = np.cumsum(operator.rounds).tolist()
    for size, end in zip(operator.rounds.tolist(), ends, strict=True):
        left, right = operator.left[end - size : end], operator.right[end - size : end] + 1
        # An infinity times zero is NaN.
        either = infinite[left] | infinite[right]
        with np.errstate(over="ignore"):
            product = largest[left] * largest[right]
        nan = np.concatenate([nan, nan[left] | nan[right] | either])
        infinite, largest = np.concatenate([infinite, either]), np.concatenate([largest, product])
    return Ranges(nan, infinite, largest)


def _joined(inputs: Sequence[Ranges]) -> Ranges:
    return Ranges(
        np.concatenate([known.nan for known in inputs]),
        np.concatenate([known.infinite for known in inputs]),
        np.concatenate([known.largest for known in inputs]),
    )


def _clipped(operator: Clip, known: Ranges) -> Ranges:
    bound = max(abs(operator.low), abs(operator.high))
    infinite = known.infinite if np.isinf(bound) else np.zeros_like(known.infinite)
    return Ranges(known.nan, infinite, np.minimum(known.largest, bound) if np.isfinite(bound) else known.largest)


def _limited(operator: Within, known: Ranges) -> Ranges:
    bound = np.maximum(np.abs(operator.low), np.abs(operator.high))
    return Ranges(known.nan, known.infinite & np.isinf(bound), np.minimum(known.largest, bound))


_RULES: Mapping[type[Operator], Callable[[Any, Sequence[Ranges], str | None], Ranges]] = {
    Above: lambda _, __, ___: Ranges.finite(1, 1),
    After: lambda _, inputs, __: inputs[0],
    ArgMax: lambda _, inputs, __: Ranges.finite(len(inputs[0].nan), 1),
    Arithmetic: lambda operator, inputs, dtype: _arithmetic(operator, inputs[0], dtype),
    Bins: lambda operator, _, __: Ranges.finite(operator.sizes, len(operator.sizes)),
    Cast: lambda operator, inputs, dtype: _cast(operator, inputs[0], dtype),
    Clip: lambda operator, inputs, __: _clipped(operator, inputs[0]),
    CodeLookup: lambda operator, inputs, __: _looked_up(operator, inputs[0]),
    Compare: lambda _, inputs, __: Ranges.finite(1, len(inputs[0].nan)),
    Concatenate: lambda _, inputs, __: _joined(inputs),
    Constant: lambda operator, _, __: _tables(
        operator.values.astype(np.float64), np.arange(len(operator.values)), len(operator.values)
    ),
    Encode: lambda operator, _, __: Ranges.finite(
        [len(vocabulary) for vocabulary in operator.vocabularies], len(operator.columns)
    ),
    Finite: lambda operator, inputs, dtype: _checked(operator, inputs[0], dtype),
    Impute: lambda operator, inputs, __: _imputed(operator, inputs[0]),
    Missing: lambda _, inputs, __: Ranges.finite(1, len(inputs[0].nan)),
    Monomials: lambda operator, inputs, __: _products(operator, inputs[0]),
    OneHot: lambda operator, _, __: Ranges.finite(1, int(operator.sizes.sum())),
    Recode: lambda operator, _, __: _recoded(operator),
    Reject: lambda _, inputs, __: inputs[0],
    Replace: lambda operator, inputs, __: _replaced(operator, inputs[0]),
    Select: lambda operator, inputs, __: inputs[0].select(operator.columns),
    Within: lambda operator, inputs, __: _limited(operator, inputs[0]),
}
