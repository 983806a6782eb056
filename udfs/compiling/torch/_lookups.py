"""Modules of the operators that give numbers another meaning."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

import optimizer.compiling as ops
from udfs.compiling.torch._numbers import to_tensor

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from optimizer.compiling import CodeLookup, Operator, Replace

__all__ = ["MODULES", "CodeLookupModule", "ReplaceModule"]

_ROUNDINGS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "none": lambda x: x,
    "down": torch.floor,
    "toward zero": torch.trunc,
}


class ReplaceModule(torch.nn.Module):
    """Put a value in the place of those between two bounds."""

    low: torch.Tensor
    high: torch.Tensor
    value: torch.Tensor

    def __init__(self, operator: Replace) -> None:
        super().__init__()
        for name, array in operator.arrays().items():
            self.register_buffer(name, to_tensor(array))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Run on a batch of shape (rows, columns)."""
        inside = torch.logical_and(x >= self.low, x <= self.high)
        return torch.where(inside, self.value.to(x.dtype), x)


class CodeLookupModule(torch.nn.Module):
    """Look numbers up: per column of the input, sorted keys and one table of answers for all results that read it."""

    order: torch.Tensor

    def __init__(self, operator: CodeLookup) -> None:
        super().__init__()
        self.rounding = _ROUNDINGS[operator.rounding]
        ends = np.cumsum(operator.count)
        self.columns = sorted({int(column) for column in operator.column})
        order: list[int] = []
        for place, column in enumerate(self.columns):
            members = np.flatnonzero(operator.column == column)
            spans = [slice(int(ends[member] - operator.count[member]), int(ends[member])) for member in members]
            keys = np.unique(np.concatenate([operator.key[span] for span in spans]))
            # The last two rows are for what is no key, and for NaN. The last key is infinite: each number has a place.
            table = np.repeat(operator.other[members][None], len(keys) + 2, axis=0)
            table[-1] = operator.missing[members]
            for answer, span in enumerate(spans):
                table[np.searchsorted(keys, operator.key[span]), answer] = operator.value[span]
            self.register_buffer(f"key_{place}", to_tensor(np.append(keys, np.nan)))
            self.register_buffer(f"table_{place}", to_tensor(table))
            order += members.tolist()
        self.sorted = order == sorted(order)
        self.register_buffer("order", to_tensor(np.argsort(np.asarray(order, np.int64))))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Run on a batch of shape (rows, columns)."""
        parts = []
        for place, column in enumerate(self.columns):
            keys, table = getattr(self, f"key_{place}"), getattr(self, f"table_{place}")
            number = self.rounding(x[:, column].to(torch.float64)).contiguous()
            at = torch.searchsorted(keys[:-1], number).clamp(max=len(keys) - 1)
            at = torch.where(keys[at] == number, at, len(keys) - 1)
            parts.append(table[torch.where(torch.isnan(number), len(keys), at)])
        results = torch.cat(parts, dim=1) if parts else x[:, :0]
        ordered = results if self.sorted else results.index_select(1, self.order)
        return ordered.to(x.dtype) if x.is_floating_point() else ordered


MODULES: Mapping[type[Operator], Callable[[Any], torch.nn.Module]] = {
    ops.CodeLookup: CodeLookupModule,
    ops.Replace: ReplaceModule,
}
"""Constructors of modules, by operator class."""
