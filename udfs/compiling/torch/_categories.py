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

    from optimizer.compiling import Known, Match, OneHot, Operator, Recode

__all__ = ["MODULES", "KnownModule", "MatchModule", "OneHotModule", "RecodeModule"]


class KnownModule(torch.nn.Module):
    """Give rows that are bad some code that is there."""

    limits: torch.Tensor

    def __init__(self, operator: Known) -> None:
        super().__init__()
        self.register_buffer("limits", tensor_of(np.maximum(operator.sizes - 1, 0)))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Run on codes of shape (rows, columns)."""
        return torch.minimum(x, self.limits)


class MatchModule(torch.nn.Module):
    """Find numbers among sorted ones, column by column."""

    def __init__(self, operator: Match) -> None:
        super().__init__()
        ends = np.cumsum(operator.sizes)
        parts = [operator.values[end - size : end] for end, size in zip(ends, operator.sizes, strict=True)]
        self.sizes = operator.sizes.tolist()
        # A number beyond all of them is compared with the last one; a column without numbers knows none. NaN has no
        # order: a search among numbers and NaN goes astray.
        for place, part in enumerate(parts):
            known = part.astype(np.float64)[~np.isnan(part)]
            self.register_buffer(f"known_{place}", tensor_of(known if len(known) else np.full(1, np.nan)))
        self.nan = [bool(np.isnan(part).any()) for part in parts]

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
        full = torch.zeros((len(x), self.total + 1), dtype=self.dtype)
        return full.scatter_(1, place, 1.0)[:, : self.total]


def _starts(sizes: NDArray[np.int64]) -> torch.Tensor:
    return tensor_of(np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.int64)[: len(sizes)])


MODULES: Mapping[type[Operator], Callable[[Any], torch.nn.Module]] = {
    ops.Known: KnownModule,
    ops.Encode: lambda _: torch.nn.Identity(),
    ops.Match: MatchModule,
    ops.OneHot: OneHotModule,
    ops.Recode: RecodeModule,
}
"""How to make the module of an operator, by its class."""
