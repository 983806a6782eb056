"""Modules on tables number by number."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

import optimizer.compiling as ops

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from optimizer.compiling import Operator

__all__ = ["MODULES", "ChooseModule"]


class ChooseModule(torch.nn.Module):
    """Choose between two tables by a third."""

    def forward(self, condition: torch.Tensor, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        """Run on batches of shape (rows, columns) or (rows, 1)."""
        return torch.where(condition != 0, x, y)


MODULES: Mapping[type[Operator], Callable[[Any], torch.nn.Module]] = {
    ops.Choose: lambda _: ChooseModule(),
}
"""How to make the module of an operator, by its class."""
