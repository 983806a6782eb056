"""Interpolation between knots."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

import optimizer.compiling as ops
from udfs.compiling.torch._numbers import to_tensor

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from optimizer.compiling import Interpolate, Operator

__all__ = ["MODULES", "InterpolateModule"]


class InterpolateModule(torch.nn.Module):
    """Find the line of each number, and follow it."""

    x: torch.Tensor
    y: torch.Tensor
    slope: torch.Tensor

    def __init__(self, operator: Interpolate) -> None:
        super().__init__()
        x, y = operator.x, operator.y
        self.right, self.nan = operator.side == "right", operator.outside == "nan"
        with np.errstate(over="ignore"):
            slope = np.append((y[1:] - y[:-1]) / (x[1:] - x[:-1]), x.dtype.type(0))
        for name, array in (("x", x), ("y", y), ("slope", slope)):
            self.register_buffer(name, to_tensor(array))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Run on a batch of shape (rows, 1)."""
        x = x.to(self.x.dtype)
        if len(self.x) == 1:
            return self.y.expand(len(x), 1)
        clipped = x.clamp(self.x[0], self.x[-1])
        # On the right the last knot begins a line of its own, whose slope is zero.
        last = len(self.x) - (1 if self.right else 2)
        line = (torch.searchsorted(self.x, clipped.contiguous(), right=self.right) - 1).clamp(0, last)
        value = self.slope[line] * (clipped - self.x[line]) + self.y[line]
        if self.right:  # a knot has its own value, also where the line is so steep that its slope is infinite
            value = torch.where(clipped == self.x[line], self.y[line], value)
        return torch.where((x < self.x[0]) | (x > self.x[-1]), torch.nan, value) if self.nan else value


MODULES: Mapping[type[Operator], Callable[[Any], torch.nn.Module]] = {ops.Interpolate: InterpolateModule}
"""Constructors of modules, by operator class."""
