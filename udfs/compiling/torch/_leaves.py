"""Torch modules of operators on the leaves of trees.

A leaf is the node of a tree that a row of the input ends in. The operator that evaluates the trees returns each leaf as
an index into its table of nodes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

import optimizer.compiling as ops
from udfs.compiling.torch._numbers import to_tensor

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from optimizer.compiling import Leaves, Operator

__all__ = ["MODULES", "LeavesModule"]


class LeavesModule(torch.nn.Module):
    """Look up the numbers that the library of the model, such as scikit-learn, gives the leaves."""

    leaf_numbers: torch.Tensor

    def __init__(self, operator: Leaves) -> None:
        super().__init__()
        self.columns = operator.columns
        self.register_buffer("leaf_numbers", to_tensor(operator.number))

    def forward(self, leaf: torch.Tensor) -> torch.Tensor:
        """Return numbers for leaves of shape (rows, trees): of that shape, or (rows, trees / columns, columns)."""
        numbers = self.leaf_numbers[leaf]
        return numbers.view(leaf.shape[0], leaf.shape[1] // self.columns, self.columns) if self.columns else numbers


MODULES: Mapping[type[Operator], Callable[[Any], torch.nn.Module]] = {
    ops.Leaves: LeavesModule,
}
"""Constructors of modules, by operator class. The first input of these modules is the leaves of the rows."""
