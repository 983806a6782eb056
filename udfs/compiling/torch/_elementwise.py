"""Modules on tables number by number."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

import optimizer.compiling as ops
from udfs.compiling.torch._numbers import tensor_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from optimizer.compiling import Broadcast, Operator

__all__ = ["MODULES", "BroadcastModule", "ChooseModule"]


class ChooseModule(torch.nn.Module):
    """Choose between two tables by a third."""

    def forward(self, condition: torch.Tensor, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        """Run on batches of shape (rows, columns) or (rows, 1)."""
        return torch.where(condition != 0, x, y)


class BroadcastModule(torch.nn.Module):
    """Repeat a row."""

    row: torch.Tensor

    def __init__(self, operator: Broadcast) -> None:
        super().__init__()
        self.register_buffer("row", tensor_of(operator.row))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Run on a batch of shape (rows, columns)."""
        return self.row.expand(len(x), -1)


MODULES: Mapping[type[Operator], Callable[[Any], torch.nn.Module]] = {
    ops.Broadcast: BroadcastModule,
    ops.Choose: lambda _: ChooseModule(),
}
"""How to make the module of an operator, by its class."""
