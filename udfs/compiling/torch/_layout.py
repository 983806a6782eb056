"""Where a compiled program holds a table in memory."""

from __future__ import annotations

import torch

__all__ = ["laid_out"]


def laid_out(x: torch.Tensor) -> torch.Tensor:
    """Have Inductor write a table to memory, row by row, instead of computing it anew wherever it is read."""
    if torch.compiler.is_compiling():
        held: torch.Tensor = torch.ops.prims.inductor_force_stride_order(x, (x.shape[1], 1))
        return held
    return x
