"""Reversal of gradients, a function of torch that no tracer records."""

from __future__ import annotations

from typing import Any

import torch

__all__ = ["Reverse"]


class Reverse(torch.autograd.Function):
    """Identity whose backward pass changes the sign of the gradients."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        """Return a view of the input."""
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        """Return the negative gradient."""
        return -gradients[0]
