"""Modules that look numbers up, and those on rows as points."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

import optimizer.compiling as ops
from udfs.compiling.torch._numbers import tensor_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from optimizer.compiling import Buckets, FirstGreatest, FromCentres, Member, Operator, OverNorm, Translate

__all__ = [
    "MODULES",
    "BucketsModule",
    "FirstGreatestModule",
    "FromCentresModule",
    "MemberModule",
    "OverNormModule",
    "RejectModule",
    "TranslateModule",
]


class MemberModule(torch.nn.Module):
    """Ask a column whether its numbers are in a set."""

    columns: torch.Tensor
    members: torch.Tensor

    def __init__(self, operator: Member) -> None:
        super().__init__()
        sizes = np.diff(operator.starts)
        # Sets filled up with NaN, which equals nothing.
        table = np.full((len(sizes), int(sizes.max(initial=1))), np.nan)
        for place, (start, size) in enumerate(zip(operator.starts, sizes, strict=False)):
            table[place, :size] = operator.members[start : start + size]
        self.register_buffer("columns", tensor_of(operator.columns.astype(np.int64)))
        self.register_buffer("members", tensor_of(table))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Run on a batch of shape (rows, columns)."""
        asked = x.index_select(1, self.columns).to(torch.float64)
        found = torch.zeros_like(asked, dtype=torch.bool)
        for place in range(self.members.shape[1]):
            found = torch.logical_or(found, asked == self.members[:, place])
        return found.to(torch.float64)


class TranslateModule(torch.nn.Module):
    """Look numbers up."""

    keys: torch.Tensor
    values: torch.Tensor

    def __init__(self, operator: Translate) -> None:
        super().__init__()
        nan = np.isnan(operator.keys)
        self.default = operator.default
        self.missing = float(operator.values[nan][0]) if nan.any() else operator.default
        # A key that is never equal, so that there is one to look at.
        self.register_buffer("keys", tensor_of(np.append(operator.keys[~nan], np.nan).astype(np.float64)))
        self.register_buffer("values", tensor_of(np.append(operator.values[~nan], 0.0).astype(np.float64)))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Run on a batch of shape (rows, columns)."""
        wide = x.to(torch.float64).contiguous()
        place = torch.searchsorted(self.keys[:-1].contiguous(), wide)
        found = torch.where(self.keys[place] == wide, self.values[place], self.default)
        return torch.where(torch.isnan(wide), self.missing, found)


class BucketsModule(torch.nn.Module):
    """Find buckets."""

    bounds: torch.Tensor

    def __init__(self, operator: Buckets) -> None:
        super().__init__()
        self.register_buffer("bounds", tensor_of(operator.bounds))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Run on a batch of shape (rows, columns)."""
        wide, count = x.to(torch.float64).contiguous(), len(self.bounds) - 1
        place = torch.searchsorted(self.bounds, wide, right=True) - 1
        place = torch.where(wide == self.bounds[-1], count - 1, place)
        return torch.where(torch.isnan(wide), count, place).to(torch.float64)


class FirstGreatestModule(torch.nn.Module):
    """Find the greatest by ``>`` from the left."""

    def __init__(self, operator: FirstGreatest) -> None:
        super().__init__()
        self.first = operator.start == "first"

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Run on a batch of shape (rows, columns)."""
        nan = torch.isnan(x)
        place = torch.where(nan, -torch.inf, x).argmax(dim=1, keepdim=True)
        return torch.where(nan[:, :1], 0, place) if self.first else place


class RejectModule(torch.nn.Module):
    """Pass the first input; the program looks at the second."""

    def forward(self, x: torch.Tensor, flags: torch.Tensor) -> torch.Tensor:  # noqa: ARG002
        """Run on batches of shape (rows, columns)."""
        return x


class FromCentresModule(torch.nn.Module):
    """Measure squared distances."""

    centres: torch.Tensor

    def __init__(self, operator: FromCentres) -> None:
        super().__init__()
        self.register_buffer("centres", tensor_of(operator.centres))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Run on a batch of shape (rows, columns)."""
        differences = x.to(torch.float64).unsqueeze(1) - self.centres
        return (differences * differences).sum(dim=2)


class OverNormModule(torch.nn.Module):
    """Divide each row by its norm."""

    def __init__(self, operator: OverNorm) -> None:
        super().__init__()
        self.p = operator.p

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Run on a batch of shape (rows, columns)."""
        # A search for the greatest by ">" passes over NaN; a sum does not.
        seen = x if self.p < float("inf") else torch.where(torch.isnan(x), 0, x)
        norm = torch.linalg.vector_norm(seen, self.p, dim=1, keepdim=True)
        return torch.where(norm == 0, x, x / norm)


MODULES: Mapping[type[Operator], Callable[[Any], torch.nn.Module]] = {
    ops.Buckets: BucketsModule,
    ops.FirstGreatest: FirstGreatestModule,
    ops.FromCentres: FromCentresModule,
    ops.Translate: TranslateModule,
    ops.Member: MemberModule,
    ops.OverNorm: OverNormModule,
    ops.Reject: lambda _: RejectModule(),
}
"""How to make the module of an operator, by its class."""
