"""What is known of the numbers in each column of a program: bounds, and whether NaN may come."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from optimizer.compiling._arithmetic import Above, ArgMax, Cast, Compare
from optimizer.compiling._categories import Encode, OneHot, Recode
from optimizer.compiling._codes import CodeLookup
from optimizer.compiling._columns import Concatenate, Finite, Impute, Select
from optimizer.compiling._constants import Constant
from optimizer.compiling._curves import Bins, Missing, Monomials
from optimizer.compiling._functions import Reject, Within
from optimizer.compiling._guards import After
from optimizer.compiling._program import INPUT

from ._floats import greatest
from ._monotone import FLOATS, monotone

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from optimizer.compiling._operator import Operator
    from optimizer.compiling._program import Program

__all__ = ["Facts", "facts_of", "rule_of"]

_WHOLE = 2.0**53  # up to here float64 has every whole number
_ROUNDED, _FAR = 1e-6, float(np.finfo(np.float32).max) / 2


@dataclass(frozen=True, slots=True)
class Facts:
    """Bounds of the numbers in each column, in rows that no check has refused so far; and what a check asks for.

    Parameters
    ----------
    low, high : float64 arrays of shape (columns,)
    nan : bool array of shape (columns,)
        Whether NaN may come.
    """

    low: NDArray[np.float64]
    high: NDArray[np.float64]
    nan: NDArray[np.bool_]

    @classmethod
    def none(cls, width: int) -> Facts:
        """Nothing is known."""
        return cls(np.full(width, -np.inf), np.full(width, np.inf), np.ones(width, np.bool_))

    @classmethod
    def between(cls, low: Any, high: Any, width: int) -> Facts:
        """Bounds, and no NaN."""
        ends = [np.broadcast_to(np.asarray(end, np.float64), width) for end in (low, high)]
        return cls(ends[0], ends[1], np.zeros(width, np.bool_))

    def of(self, columns: NDArray[Any]) -> Facts:
        """Some columns, by place or by mask."""
        return Facts(self.low[columns], self.high[columns], self.nan[columns])

    def both(self, other: Facts) -> Facts:
        """What holds where both hold."""
        return Facts(np.maximum(self.low, other.low), np.minimum(self.high, other.high), self.nan & other.nan)

    def implies(self, other: Facts) -> NDArray[np.bool_]:
        """Whether the other follows, column by column."""
        return (self.low >= other.low) & (self.high <= other.high) & (other.nan | ~self.nan)


def rule_of(operator: Finite | Within, width: int, dtype: str | None) -> Facts | None:
    """What a check asks of each column of a table; ``None`` for a table of a type that is not known."""
    if isinstance(operator, Within):
        nan = np.full(width, type(operator) is Within)
        return Facts(np.asarray(operator.low, np.float64), np.asarray(operator.high, np.float64), nan)
    if dtype not in FLOATS:
        return None
    seen = dtype if operator.dtype == "as given" else operator.dtype
    with np.errstate(over="ignore"):
        last = greatest(lambda x: ~(x.astype(seen) > np.finfo(seen).max), 1, dtype)
    limit = np.inf if operator.infinite else float(last[0])
    return Facts(np.full(width, -limit), np.full(width, limit), np.full(width, operator.nan))


def facts_of(program: Program, types: Mapping[str, str | None]) -> dict[str, Facts]:
    """Follow bounds through the program, each table after what it reads."""
    known = {INPUT: Facts.none(program.width)}
    for node in program.nodes:
        given = [known[name] for name in node.inputs]
        own = _facts(node.operator, given, types[node.inputs[0]] if node.inputs else None)
        known[node.name] = Facts.none(program.widths[node.name]) if own is None else own
    return known


def _facts(operator: Operator, given: Sequence[Facts], dtype: str | None) -> Facts | None:
    if isinstance(operator, Finite | Within):
        rule = rule_of(operator, len(given[0].nan), dtype)
        return given[0] if rule is None else given[0].both(rule)
    rule_for = _OWN.get(type(operator))
    if rule_for is not None:
        return rule_for(operator, given, dtype)
    return _moved(operator, given[0], dtype) if given else None


def _joined(given: Sequence[Facts]) -> Facts:
    return Facts(
        np.concatenate([one.low for one in given]),
        np.concatenate([one.high for one in given]),
        np.concatenate([one.nan for one in given]),
    )


def _imputed(operator: Impute, given: Facts, dtype: str | None) -> Facts | None:
    if dtype not in FLOATS:
        return None
    with np.errstate(over="ignore"):
        fills = operator.values.astype(dtype).astype(np.float64)
    empty = np.isnan(fills)
    low = np.where(empty, given.low, np.minimum(given.low, fills))
    high = np.where(empty, given.high, np.maximum(given.high, fills))
    return Facts(low, high, empty | (given.nan & ~np.isnan(operator.missing)))


def _looked_up(operator: CodeLookup, given: Facts, dtype: str | None) -> Facts | None:
    """Bounds of the tables, in the type of the result. NaN comes from a table, or where a number may be missing."""
    if dtype not in {*FLOATS, "int64"}:
        return None
    width = len(operator.column)
    missing = np.where(given.nan[operator.column], operator.missing, operator.other)
    values = np.concatenate([operator.value, operator.other, missing])
    with np.errstate(over="ignore"):
        values = values.astype(dtype if dtype in FLOATS else np.float64).astype(np.float64)
    every = np.arange(width)
    places = np.concatenate([np.repeat(every, operator.count), every, every])
    low, high, nan = np.full(width, np.inf), np.full(width, -np.inf), np.zeros(width, np.bool_)
    there = ~np.isnan(values)
    np.minimum.at(low, places[there], values[there])
    np.maximum.at(high, places[there], values[there])
    nan[places[~there]] = True
    return Facts(low, high, nan)


def _cast(operator: Cast, given: Facts, dtype: str | None) -> Facts | None:
    """Whole numbers that float64 has, from floats by cutting off and to floats by rounding, keep their order."""
    if dtype in FLOATS and operator.dtype in FLOATS:
        return _moved(operator, given, dtype)
    known = (np.abs(given.low) <= _WHOLE) & (np.abs(given.high) <= _WHOLE) & ~given.nan
    if operator.dtype == "int64":
        low, high = np.trunc(given.low), np.trunc(given.high)
    elif dtype == "int64":
        low, high = (end.astype(operator.dtype).astype(np.float64) for end in (given.low, given.high))
    else:
        return None
    return Facts(np.where(known, low, -np.inf), np.where(known, high, np.inf), ~known)


def _constants(operator: Constant) -> Facts | None:
    if operator.values.dtype.name not in FLOATS:
        return None
    values = operator.values.astype(np.float64)
    nan = np.isnan(values)
    return Facts(np.where(nan, np.inf, values), np.where(nan, -np.inf, values), nan)


def _recoded(operator: Recode) -> Facts | None:
    if not len(operator.sizes) or not (operator.sizes > 0).all():
        return None
    values = operator.values.astype(np.float64)
    starts = np.concatenate([[0], np.cumsum(operator.sizes)[:-1]]).astype(np.int64)
    nan = np.logical_or.reduceat(np.isnan(values), starts, axis=0).reshape(-1)
    low = np.minimum.reduceat(np.where(np.isnan(values), np.inf, values), starts, axis=0).reshape(-1)
    high = np.maximum.reduceat(np.where(np.isnan(values), -np.inf, values), starts, axis=0).reshape(-1)
    return Facts(low, high, nan)


def _products(operator: Monomials, given: Facts) -> Facts:
    """Products lie between those of the bounds: rounding keeps the order. Nothing is known of infinite ones."""
    low, high = (np.concatenate([[1.0], end]) for end in (given.low, given.high))
    nan = np.concatenate([[False], given.nan])
    ends = np.cumsum(operator.rounds).tolist()
    for size, end in zip(operator.rounds.tolist(), ends, strict=True):
        one, other = operator.left[end - size : end], operator.right[end - size : end] + 1
        sides = np.stack([low[one], high[one]]), np.stack([low[other], high[other]])
        known = ~(nan[one] | nan[other]) & np.isfinite(sides[0]).all(axis=0) & np.isfinite(sides[1]).all(axis=0)
        with np.errstate(all="ignore"):
            corners = (sides[0][:, None] * sides[1][None]).reshape(4, size)
            least, most = corners.min(axis=0), corners.max(axis=0)
            least, most = least - np.abs(least) * _ROUNDED, most + np.abs(most) * _ROUNDED
        # The table may be of float32, which rounds otherwise, and ends earlier.
        low = np.concatenate([low, np.where(known & (least > -_FAR), least, -np.inf)])
        high = np.concatenate([high, np.where(known & (most < _FAR), most, np.inf)])
        nan = np.concatenate([nan, ~known])
    return Facts(low, high, nan)


def _moved(operator: Operator, given: Facts, dtype: str | None) -> Facts | None:
    step = monotone(operator, np.arange(len(given.nan)), dtype)
    if step is None:
        return None
    low, high = step.range_of(given.low, given.high)
    return Facts(
        np.where(step.valid, low, -np.inf), np.where(step.valid, high, np.inf), np.where(step.valid, given.nan, True)
    )


_OWN: Mapping[type[Operator], Callable[[Any, Sequence[Facts], str | None], Facts | None]] = {
    Above: lambda _, __, ___: Facts.between(0, 1, 1),
    After: lambda _, given, __: given[0],
    ArgMax: lambda _, given, __: Facts.between(0, len(given[0].nan) - 1, 1),
    Bins: lambda operator, _, __: Facts.between(0, operator.sizes, len(operator.sizes)),
    Cast: lambda operator, given, dtype: _cast(operator, given[0], dtype),
    CodeLookup: lambda operator, given, dtype: _looked_up(operator, given[0], dtype),
    Compare: lambda _, given, __: Facts.between(0, 1, len(given[0].nan)),
    Concatenate: lambda _, given, __: _joined(given),
    Constant: lambda operator, _, __: _constants(operator),
    Encode: lambda operator, _, __: Facts.between(
        0, [len(own) for own in operator.vocabularies], len(operator.columns)
    ),
    Impute: lambda operator, given, dtype: _imputed(operator, given[0], dtype),
    Missing: lambda _, given, __: Facts.between(0, 1, len(given[0].nan)),
    Monomials: lambda operator, given, _: _products(operator, given[0]),
    OneHot: lambda operator, _, __: Facts.between(0, 1, int(operator.sizes.sum())),
    Recode: lambda operator, _, __: _recoded(operator),
    Reject: lambda _, given, __: given[0],
    Select: lambda operator, given, _: given[0].of(operator.columns),
}
