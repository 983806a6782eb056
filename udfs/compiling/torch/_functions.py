"""Operators that compute functions of numbers, of rows and of two tables."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

import optimizer.compiling as ops
from udfs.compiling.torch._numbers import tensor_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from optimizer.compiling import Combine, Function, Operator, OrderedSum, Power, Reduce, Shares

__all__ = [
    "MODULES",
    "CombineModule",
    "FirstModule",
    "FunctionModule",
    "LikeModule",
    "LogSoftmaxModule",
    "OrderedSumModule",
    "PowerModule",
    "ReduceModule",
    "SharesModule",
]


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


class FunctionModule(torch.nn.Module):
    """Apply a function to each number."""

    def __init__(self, operator: Function) -> None:
        super().__init__()
        self.function = _FUNCTIONS[operator.kind]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Run on a batch of shape (rows, columns)."""
        return self.function(x)


class PowerModule(torch.nn.Module):
    """Raise each number to a power."""

    def __init__(self, operator: Power) -> None:
        super().__init__()
        self.exponent = operator.exponent

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Run on a batch of shape (rows, columns)."""
        return torch.pow(x, self.exponent)


class CombineModule(torch.nn.Module):
    """Combine two tables, number by number."""

    def __init__(self, operator: Combine) -> None:
        super().__init__()
        self.operation = _COMBINATIONS[operator.kind]

    def forward(self, left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
        """Run on two batches of shape (rows, columns) or (rows, 1)."""
        dtype = torch.promote_types(left.dtype, right.dtype)
        return self.operation(left.to(dtype), right.to(dtype)).to(dtype)


class LikeModule(torch.nn.Module):
    """Change the type to another table's."""

    def forward(self, x: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
        """Run on two batches."""
        return x.to(other.dtype)


class ReduceModule(torch.nn.Module):
    """Make one number of each group of columns."""

    def __init__(self, operator: Reduce) -> None:
        super().__init__()
        self.reduction, self.groups = _REDUCTIONS[operator.kind], operator.groups

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Run on a batch of shape (rows, columns)."""
        return self.reduction(x.reshape(x.shape[0], self.groups, x.shape[1] // self.groups), dim=2)


class LogSoftmaxModule(torch.nn.Module):
    """Map the scores of a row to logarithms of probabilities."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Run on a batch of shape (rows, columns)."""
        return torch.log_softmax(x, dim=1)


class SharesModule(torch.nn.Module):
    """Divide each row by its sum."""

    def __init__(self, operator: Shares) -> None:
        super().__init__()
        self.equal = operator.equal

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Run on a batch of shape (rows, columns)."""
        total = x.sum(dim=1, keepdim=True)
        empty = total == 0
        shares = x / torch.where(empty, 1, total)
        return torch.where(empty, 1 / x.shape[1], shares) if self.equal else shares


class OrderedSumModule(torch.nn.Module):
    """Add up weighed columns, one after the other: ``cumsum`` keeps the order."""

    columns: torch.Tensor
    weights: torch.Tensor
    bias: torch.Tensor

    def __init__(self, operator: OrderedSum) -> None:
        super().__init__()
        self.ends = list(pairwise(operator.starts.tolist()))
        self.runs = [_neighbours(operator.columns[start:end]) for start, end in self.ends]
        self.register_buffer("columns", tensor_of(operator.columns))
        self.register_buffer("weights", tensor_of(operator.weights))
        self.register_buffer("bias", tensor_of(operator.bias))

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


class FirstModule(torch.nn.Module):
    """Pass the first table. The program checks the rows by the others."""

    def forward(self, x: torch.Tensor, *others: torch.Tensor) -> torch.Tensor:
        """Run on batches with the same rows."""
        return x


MODULES: Mapping[type[Operator], Callable[[Any], torch.nn.Module]] = {
    ops.Combine: CombineModule,
    ops.Function: FunctionModule,
    ops.Like: lambda _: LikeModule(),
    ops.LogSoftmax: lambda _: LogSoftmaxModule(),
    ops.OrderedSum: OrderedSumModule,
    ops.Power: PowerModule,
    ops.Reduce: ReduceModule,
    ops.After: lambda _: FirstModule(),
    ops.Reject: lambda _: FirstModule(),
    ops.Shares: SharesModule,
    ops.Within: lambda _: torch.nn.Identity(),
}
"""How to make the module of an operator, by its class."""
