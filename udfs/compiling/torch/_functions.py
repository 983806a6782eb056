"""Operators that compute functions of numbers, of rows and of two tables."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

import optimizer.compiling as ops
from udfs.compiling.torch._numbers import Apply, to_tensor

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from optimizer.compiling import Combine, Operator, OrderedSum, Reduce, Shares

__all__ = ["MODULES", "OrderedSumModule"]


def _nonzero(x: torch.Tensor) -> torch.Tensor:
    return torch.where(x == 0, torch.finfo(x.dtype).tiny, x)


_FUNCTIONS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "abs": torch.abs,
    "erf": torch.erf,
    "exp": torch.exp,
    "log": torch.log,
    "negative": torch.neg,
    "nonzero": _nonzero,
    "relu": torch.relu,
    "sin": torch.sin,
    "sqrt": torch.sqrt,
    "square": torch.square,
    "tanh": torch.tanh,
    "ceil": torch.ceil,
    "expm1": torch.expm1,
    "floor": torch.floor,
    "is_nan": lambda x: torch.isnan(x).to(x.dtype),
    "log1p": torch.log1p,
    "not": lambda x: (x == 0).to(x.dtype),
    "reciprocal": torch.reciprocal,
    "round": torch.round,
    "sign": torch.sign,
}
_COMBINATIONS: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "add": torch.add,
    "subtract": torch.sub,
    "multiply": torch.mul,
    "divide": torch.div,
    "maximum": torch.maximum,
    "minimum": torch.minimum,
    "and": torch.logical_and,
    "equal": torch.eq,
    "greater": torch.gt,
    "greater_equal": torch.ge,
    "less": torch.lt,
    "less_equal": torch.le,
    "or": torch.logical_or,
    "power": torch.pow,
}
_REDUCTIONS: dict[str, Callable[..., torch.Tensor]] = {
    "sum": torch.sum,
    "mean": torch.mean,
    "max": torch.amax,
    "min": torch.amin,
    "logsumexp": torch.logsumexp,
    "product": torch.prod,
    "sum_square": lambda x, dim: (x * x).sum(dim=dim),
}


def _combine(operator: Combine) -> Apply:
    operation = _COMBINATIONS[operator.kind]

    def run(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
        dtype = torch.promote_types(left.dtype, right.dtype)
        return operation(left.to(dtype), right.to(dtype)).to(dtype)

    return Apply(run)


def _reduce(operator: Reduce) -> Apply:
    """Return a module that makes one number of each group of columns."""
    reduction, groups = _REDUCTIONS[operator.kind], operator.groups
    return Apply(lambda x: reduction(x.reshape(x.shape[0], groups, x.shape[1] // groups), dim=2))


def _shares(operator: Shares) -> Apply:
    """Return a module that divides each row by its sum."""

    def run(x: torch.Tensor) -> torch.Tensor:
        total = x.sum(dim=1, keepdim=True)
        empty = total == 0
        shares = x / torch.where(empty, 1, total)
        return torch.where(empty, 1 / x.shape[1], shares) if operator.equal else shares

    return Apply(run)


class OrderedSumModule(torch.nn.Module):
    """Add up weighed columns, one after the other: ``cumsum`` keeps the order."""

    columns: torch.Tensor
    weights: torch.Tensor
    bias: torch.Tensor

    def __init__(self, operator: OrderedSum) -> None:
        super().__init__()
        self.ends = list(pairwise(operator.starts.tolist()))
        self.runs = [_neighbours(operator.columns[start:end]) for start, end in self.ends]
        self.register_buffer("columns", to_tensor(operator.columns))
        self.register_buffer("weights", to_tensor(operator.weights))
        self.register_buffer("bias", to_tensor(operator.bias))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Run on a batch of shape (rows, columns)."""
        sums = []
        for (start, end), runs in zip(self.ends, self.runs, strict=True):
            if runs:
                parts = [x[:, first:last] for first, last in runs]
                factors = parts[0] if len(parts) == 1 else torch.cat(parts, dim=1)
            else:
                factors = x.index_select(1, self.columns[start:end])
            terms = factors * self.weights[start:end]
            sums.append(terms.cumsum(dim=1)[:, -1:] if end > start else x.new_zeros((x.shape[0], 1)))
        return torch.cat(sums, dim=1) + self.bias


# Longer lists of slices take longer than a gather.
_RUNS = 8


def _neighbours(columns: NDArray[np.int64]) -> list[tuple[int, int]]:
    """Return the runs of neighbouring columns, each as its first and the one after its last; none if there are many."""
    breaks = np.flatnonzero(np.diff(columns) != 1) + 1
    if not len(columns) or len(breaks) >= _RUNS:
        return []
    return [(int(run[0]), int(run[-1]) + 1) for run in np.split(columns, breaks)]


def _first(x: torch.Tensor, *_: torch.Tensor) -> torch.Tensor:
    """Pass the first table. The program checks the rows by the others."""
    return x


MODULES: Mapping[type[Operator], Callable[[Any], torch.nn.Module]] = {
    ops.Choose: lambda _: Apply(lambda condition, x, y: torch.where(condition != 0, x, y)),
    ops.Combine: _combine,
    ops.Function: lambda operator: Apply(_FUNCTIONS[operator.kind]),
    ops.Like: lambda _: Apply(lambda x, other: x.to(other.dtype)),
    ops.LogSoftmax: lambda _: Apply(lambda x: torch.log_softmax(x, dim=1)),
    ops.OrderedSum: OrderedSumModule,
    ops.Power: lambda operator: Apply(lambda x: torch.pow(x, operator.exponent)),
    ops.Reduce: _reduce,
    ops.After: lambda _: Apply(_first),
    ops.Reject: lambda _: Apply(_first),
    ops.Shares: _shares,
    ops.Within: lambda _: torch.nn.Identity(),
}
"""Constructors of modules, by operator class."""
