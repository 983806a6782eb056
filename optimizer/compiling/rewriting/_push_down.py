"""Selection push-down, operator by operator: what each reads for some of its columns, and what it is without others.

An operator that is not here is blocking: it needs every column.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from optimizer.compiling._arithmetic import Arithmetic, Cast, Clip, Compare, Linear, Sigmoid
from optimizer.compiling._categories import Encode, Recode
from optimizer.compiling._columns import Finite, Impute, Select
from optimizer.compiling._constants import Constant
from optimizer.compiling._curves import Bins, Missing, Monomials, PowerTransform, Quantiles, Ufunc
from optimizer.compiling._elementwise import Choose
from optimizer.compiling._ensembles import Average
from optimizer.compiling._functions import Combine, Function, Power, Within
from optimizer.compiling._lookups import CodeLookup, Replace
from optimizer.compiling._trees import Trees

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from optimizer.compiling._operator import Operator
    from optimizer.compiling.rewriting._ranges import Ranges

__all__ = ["NARROW", "Narrow", "Narrowed"]

Mask = Any
"""A bool array: the columns that are wanted."""


@dataclass(frozen=True, slots=True)
class Narrowed:
    """An operator with fewer columns.

    ``columns`` are those of the original that the operator returns.
    """

    operator: Operator
    columns: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Narrow:
    """Rules for an operator with fewer columns.

    ``wants(operator, mask, widths, ranges)`` returns a mask for each input, and ``without(operator, mask, columns)``
    the operator without the others; ``columns`` has the columns that are there of each input. ``gathers`` is true if it
    finds its columns by place, so that an input may have more of them.
    """

    wants: Callable[[Any, Mask, Sequence[int], Sequence[Ranges]], list[Mask]]
    without: Callable[[Any, Mask, Sequence[NDArray[np.int64]]], Narrowed]
    gathers: bool = False


def _same(operator: Any, mask: Mask, widths: Sequence[int], ranges: Sequence[Ranges]) -> list[Mask]:  # noqa: ARG001
    return [mask] * len(widths)


def _unchanged(operator: Any, mask: Mask, columns: Sequence[Any]) -> Narrowed:  # noqa: ARG001
    return Narrowed(operator, np.flatnonzero(mask))


def _per_column(*names: str) -> Narrow:
    """Return the arrays whose last axis is that of the columns."""

    def without(operator: Any, mask: Mask, columns: Sequence[Any]) -> Narrowed:  # noqa: ARG001
        kept = np.flatnonzero(mask)
        return Narrowed(replace(operator, **{name: getattr(operator, name)[..., kept] for name in names}), kept)

    return Narrow(_same, without)


def _ragged(name: str, sizes: str = "sizes") -> Narrow:
    """An array that holds a part for each column."""

    def without(operator: Any, mask: Mask, columns: Sequence[Any]) -> Narrowed:  # noqa: ARG001
        parts = np.repeat(mask, getattr(operator, sizes))
        fewer = {name: getattr(operator, name)[parts], sizes: getattr(operator, sizes)[mask]}
        return Narrowed(replace(operator, **fewer), np.flatnonzero(mask))

    return Narrow(_same, without)


def _expanded(groups: Mask, each: int) -> NDArray[np.int64]:
    return np.flatnonzero(np.repeat(groups, each))


def _wants_groups(operator: Any, mask: Mask, widths: Sequence[int], ranges: Sequence[Ranges]) -> list[Mask]:  # noqa: ARG001
    return [mask.reshape(widths[0], -1).any(axis=1)]


def _recoded(operator: Recode, mask: Mask, columns: Sequence[Any]) -> Narrowed:  # noqa: ARG001
    each = operator.values.shape[1]
    groups = mask.reshape(-1, each).any(axis=1)
    values = operator.values[np.repeat(groups, operator.sizes)]
    return Narrowed(replace(operator, values=values, sizes=operator.sizes[groups]), _expanded(groups, each))


def _mask_of(width: int, columns: NDArray[Any], *, some: bool = False) -> Mask:
    """Mark columns; one at least, where a table must have some."""
    mask = np.zeros(width, np.bool_)
    mask[columns] = True
    if some and width and not mask.any():
        mask[0] = True
    return mask


def _placed(columns: NDArray[Any], among: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.searchsorted(among, columns).astype(np.int64)


_SELECT = Narrow(
    lambda op, mask, widths, _: [_mask_of(widths[0], op.columns[mask])],
    lambda op, mask, columns: Narrowed(Select(_placed(op.columns[mask], columns[0])), np.flatnonzero(mask)),
    gathers=True,
)


def _wanted_products(operator: Monomials, mask: Mask, width: int) -> Mask:
    """Return the products that are wanted, and those that they are made of."""
    wanted = mask.copy()
    for place in reversed(range(len(operator.left))):
        if wanted[1 + width + place]:
            wanted[operator.left[place]] = wanted[1 + operator.right[place]] = True
    return wanted


def _wants_monomials(operator: Monomials, mask: Mask, widths: Sequence[int], ranges: Sequence[Ranges]) -> list[Mask]:  # noqa: ARG001
    columns = _wanted_products(operator, mask, widths[0])[1 : 1 + widths[0]]
    return [columns if columns.any() or not widths[0] else _mask_of(widths[0], np.zeros(1, np.int64))]


def _fewer_monomials(operator: Monomials, mask: Mask, columns: Sequence[NDArray[np.int64]]) -> Narrowed:
    width = len(mask) - 1 - len(operator.left)
    wanted = _wanted_products(operator, mask, width)
    products = wanted[1 + width :]
    kept = np.concatenate([[0], 1 + columns[0], 1 + width + np.flatnonzero(products)]).astype(np.int64)
    rounds = [int(part.sum()) for part in np.split(products, np.cumsum(operator.rounds)[:-1])]
    fewer = Monomials(
        _placed(operator.left[products], kept),
        _placed(operator.right[products], columns[0]),
        np.array([size for size in rounds if size], np.int64),
    )
    return Narrowed(fewer, kept)


def _looked_up(operator: CodeLookup, mask: Mask, columns: Sequence[NDArray[np.int64]]) -> Narrowed:
    parts = np.repeat(mask, operator.count)
    fewer = replace(
        operator,
        column=_placed(operator.column[mask], columns[0]),
        count=operator.count[mask],
        key=operator.key[parts],
        value=operator.value[parts],
        other=operator.other[mask],
        missing=operator.missing[mask],
    )
    return Narrowed(fewer, np.flatnonzero(mask))


def _wants_weights(operator: Linear, mask: Mask, widths: Sequence[int], ranges: Sequence[Ranges]) -> list[Mask]:
    """Injection: a weight of zero reads nothing, unless NaN or an infinity may come, which times zero is NaN."""
    finite = ~(ranges[0].nan | ranges[0].infinite)
    used = (operator.weights[:, mask] != 0).any(axis=1)
    return [_mask_of(widths[0], np.flatnonzero(used | ~finite), some=True)]


def _fewer_weights(operator: Linear, mask: Mask, columns: Sequence[NDArray[np.int64]]) -> Narrowed:
    weights = np.ascontiguousarray(operator.weights[columns[0]][:, mask])
    return Narrowed(Linear(weights, operator.bias[mask]), np.flatnonzero(mask))


def _wants_features(operator: Trees, mask: Mask, widths: Sequence[int], ranges: Sequence[Ranges]) -> list[Mask]:  # noqa: ARG001
    """Injection: a column that no split looks at is not read."""
    inner = operator.left != np.arange(len(operator.left))
    return [_mask_of(widths[0], operator.feature[inner], some=True)]


def _fewer_features(operator: Trees, mask: Mask, columns: Sequence[NDArray[np.int64]]) -> Narrowed:
    inner = operator.left != np.arange(len(operator.left))
    feature = np.where(inner, _placed(operator.feature, columns[0]), 0).astype(np.int32)
    return Narrowed(replace(operator, feature=feature, features=len(columns[0])), np.arange(len(mask)))


def _wants_one_or_all(operator: Any, mask: Mask, widths: Sequence[int], ranges: Sequence[Ranges]) -> list[Mask]:  # noqa: ARG001
    """A table of one column meets every column of the others."""
    return [mask if width == len(mask) else mask.any(keepdims=True) for width in widths]


def _no_column(operator: Any, mask: Mask, widths: Sequence[int], ranges: Sequence[Ranges]) -> list[Mask]:  # noqa: ARG001
    return [np.zeros(width, np.bool_) for width in widths]


def _encoded(operator: Encode, mask: Mask, columns: Sequence[Any]) -> Narrowed:  # noqa: ARG001
    kept = np.flatnonzero(mask)
    return Narrowed(
        replace(
            operator,
            columns=operator.columns[kept],
            vocabularies=tuple(operator.vocabularies[place] for place in kept.tolist()),
        ),
        kept,
    )


_ELEMENTWISE = (Average, Cast, Clip, Compare, Finite, Function, Missing, Power, Sigmoid, Ufunc)

NARROW: Mapping[type[Operator], Narrow] = {
    **dict.fromkeys(_ELEMENTWISE, Narrow(_same, _unchanged)),
    Arithmetic: _per_column("operand"),
    Bins: _ragged("edges"),
    Choose: Narrow(_wants_one_or_all, _unchanged),
    Combine: Narrow(_wants_one_or_all, _unchanged),
    CodeLookup: Narrow(lambda op, mask, widths, _: [_mask_of(widths[0], op.column[mask])], _looked_up, gathers=True),
    Constant: Narrow(_no_column, _per_column("values").without),
    Encode: Narrow(_no_column, _encoded),
    Impute: _per_column("values"),
    Linear: Narrow(_wants_weights, _fewer_weights, gathers=True),
    Monomials: Narrow(_wants_monomials, _fewer_monomials),
    PowerTransform: _per_column("lambdas"),
    Quantiles: _per_column("quantiles"),
    Recode: Narrow(_wants_groups, _recoded),
    Replace: _per_column("low", "high", "value"),
    Select: _SELECT,
    Trees: Narrow(_wants_features, _fewer_features, gathers=True),
    Within: _per_column("low", "high"),
}
"""By the class of an operator."""
