"""Modules of the operators that take the leaves which trees found, places in their table of nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

import optimizer.compiling as ops
from udfs.compiling.torch._numbers import tensor_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from optimizer.compiling import Indicators, Leaves, LinearLeaves, Operator

__all__ = ["MODULES", "IndicatorsModule", "LeavesModule", "LinearLeavesModule"]


class LeavesModule(torch.nn.Module):
    """Number the leaves as the library does."""

    number: torch.Tensor

    def __init__(self, operator: Leaves) -> None:
        super().__init__()
        self.columns = operator.columns
        self.register_buffer("number", tensor_of(operator.number))

    def forward(self, leaf: torch.Tensor) -> torch.Tensor:
        """Run on leaves of shape (rows, trees)."""
        numbers = self.number[leaf]
        return numbers.view(leaf.shape[0], leaf.shape[1] // self.columns, self.columns) if self.columns else numbers


class LinearLeavesModule(torch.nn.Module):
    """Compute the model of each leaf, and add up in the order of the trees."""

    constant: torch.Tensor
    value: torch.Tensor
    column: torch.Tensor
    weight: torch.Tensor
    target: torch.Tensor
    base: torch.Tensor

    def __init__(self, operator: LinearLeaves) -> None:
        super().__init__()
        # A leaf with fewer terms reads a column of zeros, which is added to the table.
        columns = np.where(operator.column < 0, operator.features, operator.column)
        arrays = {**operator.arrays(), "column": columns}
        for name, array in arrays.items():
            self.register_buffer(name, tensor_of(array))

    def forward(self, leaf: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        """Run on leaves of shape (rows, trees) and rows of shape (rows, columns)."""
        rows = torch.nn.functional.pad(x.to(torch.float64), (0, 1))
        output = self.constant[leaf]
        holes = torch.zeros_like(output, dtype=torch.bool)
        for term in range(self.column.shape[1]):
            number = rows.gather(1, self.column[leaf, term])
            output = output + self.weight[leaf, term] * number
            holes = torch.logical_or(holes, torch.isnan(number))
        output = torch.where(holes, self.value[leaf], output)
        return self.base.repeat(x.shape[0], 1).scatter_add(1, self.target.expand(x.shape[0], -1), output)


class IndicatorsModule(torch.nn.Module):
    """Put ones where the rows say."""

    def __init__(self, operator: Indicators) -> None:
        super().__init__()
        self.columns = operator.columns

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Run on a batch of shape (rows, columns) of whole numbers."""
        zeros = torch.zeros((x.shape[0], self.columns), dtype=torch.float64)
        return zeros.scatter(1, x, torch.ones((), dtype=torch.float64).expand(x.shape))


MODULES: Mapping[type[Operator], Callable[[Any], torch.nn.Module]] = {
    ops.Indicators: IndicatorsModule,
    ops.Leaves: LeavesModule,
    ops.LinearLeaves: LinearLeavesModule,
}
"""How to make the module of an operator, by its class. The first input of leaves is what the trees found."""
