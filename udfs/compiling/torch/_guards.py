"""Modules of checks beside the path of the values."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

import optimizer.compiling as ops

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from optimizer.compiling import Operator

__all__ = ["MODULES", "AfterModule"]


class AfterModule(torch.nn.Module):
    """Pass the first table; the program looks at the others."""

    def forward(self, x: torch.Tensor, *checks: torch.Tensor) -> torch.Tensor:  # noqa: ARG002
        """Run on batches of shape (rows, columns)."""
        return x


MODULES: Mapping[type[Operator], Callable[[Any], torch.nn.Module]] = {
    ops.After: lambda _: AfterModule(),
    ops.Held: lambda _: torch.nn.Identity(),
}
"""How to make the module of an operator, by its class."""
