"""Modules on tables number by number."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

import optimizer.compiling as ops
from udfs.compiling.torch._numbers import tensor_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from optimizer.compiling import Operator, Products

__all__ = ["MODULES", "ChooseModule", "ProductsModule"]


class ChooseModule(torch.nn.Module):
    """Choose between two tables by a third."""

    def forward(self, condition: torch.Tensor, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        """Run on batches of shape (rows, columns) or (rows, 1)."""
        return torch.where(condition != 0, x, y)


class ProductsModule(torch.nn.Module):
    """Multiply columns."""

    factors: torch.Tensor

    def __init__(self, operator: Products) -> None:
        super().__init__()
        self.register_buffer("factors", tensor_of(operator.factors.T))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Run on a batch of shape (rows, columns)."""
        # The last column, which -1 takes, is one.
        wide = torch.cat([x, torch.ones_like(x[:, :1])], dim=1)
        product = torch.ones((len(x), self.factors.shape[1]), dtype=x.dtype)
        for columns in self.factors:
            product = torch.where(product == 0, 0, product * wide[:, columns])
        return product


MODULES: Mapping[type[Operator], Callable[[Any], torch.nn.Module]] = {
    ops.Choose: lambda _: ChooseModule(),
    ops.Products: ProductsModule,
}
"""How to make the module of an operator, by its class."""
