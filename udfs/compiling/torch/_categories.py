"""Operators on categories."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

import optimizer.compiling as ops
from udfs.compiling.torch._numbers import tensor_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from numpy.typing import NDArray

    from optimizer.compiling import Match, OneHot, Operator, Recode

__all__ = ["MODULES", "MatchModule", "OneHotModule", "RecodeModule"]


class MatchModule(torch.nn.Module):
    """Find numbers among sorted ones, column by column."""

    def __init__(self, operator: Match) -> None:
        super().__init__()
        ends = np.cumsum(operator.sizes)
        parts = [operator.values[end - size : end] for end, size in zip(ends, operator.sizes, strict=True)]
        self.sizes = operator.sizes.tolist()
        # A number beyond all of them is compared with the last one; a column without values knows nothing.
        for place, part in enumerate(parts):
            known = part if len(part) else np.full(1, np.nan)
            self.register_buffer(f"known_{place}", tensor_of(known.astype(np.float64)))
        self.nan = [bool(len(part)) and bool(np.isnan(part[-1])) for part in parts]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Run on a batch of shape (rows, columns)."""
        wide = x.to(torch.float64)
        places = []
        for place, size in enumerate(self.sizes):
            column, known = wide[:, place].contiguous(), getattr(self, f"known_{place}")
            at = torch.searchsorted(known, column).clamp_max(len(known) - 1)
            equal = known[at] == column
            absent = torch.where(torch.isnan(column), size - 1, size) if self.nan[place] else size
            places.append(torch.where(equal, at, absent))
        return torch.stack(places, dim=1)


class RecodeModule(torch.nn.Module):
    """Gather a few numbers per code."""

    values: torch.Tensor
    starts: torch.Tensor

    def __init__(self, operator: Recode) -> None:
        super().__init__()
        self.register_buffer("values", tensor_of(operator.values))
        self.register_buffer("starts", _starts(operator.sizes))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Run on codes of shape (rows, columns)."""
        return self.values[x + self.starts].reshape(len(x), -1)


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
        full = torch.zeros((len(x), self.total + 1), dtype=self.dtype)
        return full.scatter_(1, place, 1.0)[:, : self.total]


def _starts(sizes: NDArray[np.int64]) -> torch.Tensor:
    return tensor_of(np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.int64)[: len(sizes)])


MODULES: Mapping[type[Operator], Callable[[Any], torch.nn.Module]] = {
    ops.Known: lambda _: torch.nn.Identity(),
    ops.Encode: lambda _: torch.nn.Identity(),
    ops.Match: MatchModule,
    ops.OneHot: OneHotModule,
    ops.Recode: RecodeModule,
}
"""How to make the module of an operator, by its class."""
