"""Modules of the operators that take the leaves which trees found, places in their table of nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

import optimizer.compiling as ops
from udfs.compiling.torch._numbers import tensor_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from optimizer.compiling import Leaves, Operator

__all__ = ["MODULES", "LeavesModule"]


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


MODULES: Mapping[type[Operator], Callable[[Any], torch.nn.Module]] = {
    ops.Leaves: LeavesModule,
}
"""How to make the module of an operator, by its class. The first input of leaves is what the trees found."""
