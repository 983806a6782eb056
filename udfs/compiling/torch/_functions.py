"""Operators that compute functions of numbers, of rows and of two tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch

import optimizer.compiling as ops
from udfs.compiling.torch._numbers import tensor_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from optimizer.compiling import Combine, Function, Interpolate, Lookup, Operator, Power, Reduce, Shares

__all__ = [
    "MODULES",
    "CombineModule",
    "FunctionModule",
    "InterpolateModule",
    "LikeModule",
    "LogSoftmaxModule",
    "LookupModule",
    "PowerModule",
    "ReduceModule",
    "SharesModule",
]

_FUNCTIONS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "abs": torch.abs,
    "erf": torch.erf,
    "exp": torch.exp,
    "log": torch.log,
    "negative": torch.neg,
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
        return self.reduction(x.reshape(len(x), self.groups, x.shape[1] // self.groups), dim=2)


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


class LookupModule(torch.nn.Module):
    """Add up rows of tables, column by column."""

    values: torch.Tensor

    def __init__(self, operator: Lookup) -> None:
        super().__init__()
        self.starts = [int(start) for start in operator.starts]
        self.register_buffer("values", tensor_of(operator.values))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Run on a batch of shape (rows, columns)."""
        total = torch.zeros((len(x), self.values.shape[1]), dtype=self.values.dtype)
        for column, (start, end) in enumerate(zip(self.starts, self.starts[1:], strict=False)):
            # NaN has no whole number: such a row is bad, and any entry will do.
            place = torch.nan_to_num(x[:, column]).clamp(0, end - start - 1).to(torch.int64)
            total = total + self.values[start + place]
        return total


class InterpolateModule(torch.nn.Module):
    """Go along the line from each point to the next."""

    x: torch.Tensor
    y: torch.Tensor
    slope: torch.Tensor

    def __init__(self, operator: Interpolate) -> None:
        super().__init__()
        self.register_buffer("x", tensor_of(operator.x))
        self.register_buffer("y", tensor_of(operator.y))
        self.register_buffer("slope", tensor_of(np.diff(operator.y) / np.diff(operator.x)))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Run on a batch of shape (rows, 1)."""
        place = (torch.searchsorted(self.x, x.contiguous(), right=True) - 1).clamp(0, len(self.x) - 2)
        line = self.slope[place] * (x - self.x[place]) + self.y[place]
        line = torch.where(x == self.x[-1], self.y[-1], line)
        return torch.where((x < self.x[0]) | (x > self.x[-1]), torch.nan, line)


MODULES: Mapping[type[Operator], Callable[[Any], torch.nn.Module]] = {
    ops.Combine: CombineModule,
    ops.Function: FunctionModule,
    ops.Interpolate: InterpolateModule,
    ops.Like: lambda _: LikeModule(),
    ops.LogSoftmax: lambda _: LogSoftmaxModule(),
    ops.Lookup: LookupModule,
    ops.Power: PowerModule,
    ops.Reduce: ReduceModule,
    ops.Shares: SharesModule,
    ops.Within: lambda _: torch.nn.Identity(),
}
"""How to make the module of an operator, by its class."""
