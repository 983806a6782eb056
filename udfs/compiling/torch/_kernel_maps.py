"""Operators of kernel maps."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

import optimizer.compiling as ops
from udfs.compiling.torch._numbers import tensor_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from optimizer.compiling import AdditiveChi2, CountSketch, KernelCentre, Operator

__all__ = ["MODULES", "AdditiveChi2Module", "CountSketchModule", "KernelCentreModule"]


class KernelCentreModule(torch.nn.Module):
    """Centre a kernel, in the library's order."""

    rows: torch.Tensor

    def __init__(self, operator: KernelCentre) -> None:
        super().__init__()
        self.whole = operator.whole
        self.register_buffer("rows", tensor_of(operator.rows))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Run on a kernel of shape (rows, training rows)."""
        means = x.sum(dim=1, keepdim=True) / len(self.rows)
        return x - self.rows.to(x.dtype) - means + self.whole


class CountSketchModule(torch.nn.Module):
    """Sketch, and convolve."""

    sketches: torch.Tensor

    def __init__(self, operator: CountSketch) -> None:
        super().__init__()
        degree, width = operator.places.shape
        self.shape = (degree, operator.columns)
        table = np.zeros((width, degree, operator.columns))
        for number in range(degree):
            table[np.arange(width), number, operator.places[number]] = operator.signs[number]
        self.register_buffer("sketches", tensor_of(table.reshape(width, -1)))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Run on a batch of shape (rows, columns)."""
        if not len(x):
            return x.new_zeros((0, self.shape[1]), dtype=torch.float64)  # MKL's transform takes no table without rows
        sketches = (x.to(torch.float64) @ self.sketches).reshape(len(x), *self.shape)
        convolved: torch.Tensor = torch.fft.ifft(torch.fft.fft(sketches, dim=2).prod(dim=1), dim=1).real
        return convolved.contiguous()


class AdditiveChi2Module(torch.nn.Module):
    """Sample the spectrum."""

    def __init__(self, operator: AdditiveChi2) -> None:
        super().__init__()
        self.steps, self.interval = operator.steps, operator.interval

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Run on a batch of shape (rows, columns), none below zero."""
        there = x != 0
        safe = torch.where(there, x, torch.ones_like(x))
        parts = [torch.sqrt(safe * self.interval)]
        logs = self.interval * torch.log(safe)
        for step in range(1, self.steps):
            # numpy divides by a float64: of a denormal float32, something is left.
            wide = (2 * safe * self.interval).to(torch.float64)
            factor = torch.sqrt(wide / np.cosh(np.pi * step * self.interval))
            parts += [(factor * wave(step * logs)).to(x.dtype) for wave in (torch.cos, torch.sin)]
        return torch.cat([torch.where(there, part, torch.zeros_like(part)) for part in parts], dim=1)


MODULES: Mapping[type[Operator], Callable[[Any], torch.nn.Module]] = {
    ops.AdditiveChi2: AdditiveChi2Module,
    ops.CountSketch: CountSketchModule,
    ops.KernelCentre: KernelCentreModule,
}
"""How to make the module of an operator, by its class."""
