"""Operators on categories."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

import optimizer.compiling as ops
from udfs.compiling.torch._numbers import to_tensor

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from numpy.typing import NDArray

    from optimizer.compiling import Known, OneHot, Operator, Recode

__all__ = ["MODULES", "KnownModule", "OneHotModule", "RecodeModule"]


class KnownModule(torch.nn.Module):
    """Replace the codes of bad rows by known ones."""

    limits: torch.Tensor

    def __init__(self, operator: Known) -> None:
        super().__init__()
        self.register_buffer("limits", to_tensor(np.maximum(operator.sizes - 1, 0)))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Run on codes of shape (rows, columns)."""
        return torch.minimum(x, self.limits)


class RecodeModule(torch.nn.Module):
    """Gather a few numbers per code."""

    values: torch.Tensor
    starts: torch.Tensor

    def __init__(self, operator: Recode) -> None:
        super().__init__()
        self.register_buffer("values", to_tensor(operator.values))
        self.register_buffer("starts", _starts(operator.sizes))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Run on codes of shape (rows, columns)."""
        return self.values[x + self.starts].flatten(1)


class OneHotModule(torch.nn.Module):
    """Write ones where codes say."""

    starts: torch.Tensor

    def __init__(self, operator: OneHot) -> None:
        super().__init__()
        self.total = int(operator.sizes.sum())
        self.dtype = getattr(torch, operator.dtype)
        self.register_buffer("starts", _starts(operator.sizes))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Run on codes of shape (rows, columns)."""
        # Codes that name no column write into one more, which is cut off.
        place = torch.where(x < 0, self.total, x + self.starts)
        full = torch.zeros((x.shape[0], self.total + 1), dtype=self.dtype)
        return full.scatter_(1, place, 1.0)[:, : self.total]


def _starts(sizes: NDArray[np.int64]) -> torch.Tensor:
    return to_tensor(np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.int64)[: len(sizes)])


MODULES: Mapping[type[Operator], Callable[[Any], torch.nn.Module]] = {
    ops.Known: KnownModule,
    ops.Encode: lambda _: torch.nn.Identity(),
    ops.OneHot: OneHotModule,
    ops.Recode: RecodeModule,
}
"""Constructors of modules, by operator class."""
