"""The module of functions from scores to quantities."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

import optimizer.compiling as ops

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from optimizer.compiling import Link, Operator

__all__ = ["MODULES", "LinkModule"]

_FUNCTIONS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "exp": torch.exp,
    "softplus": lambda x: torch.log1p(torch.exp(x)),
    "signed square": lambda x: x * torch.abs(x),
}


class LinkModule(torch.nn.Module):
    """Apply the function."""

    def __init__(self, operator: Link) -> None:
        super().__init__()
        self.function = _FUNCTIONS[operator.kind]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Run on a batch of shape (rows, columns)."""
        return self.function(x)


MODULES: Mapping[type[Operator], Callable[[Any], torch.nn.Module]] = {ops.Link: LinkModule}
"""How to make the module of an operator, by its class."""
