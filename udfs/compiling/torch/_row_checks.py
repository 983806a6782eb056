"""Rows that break row validation operators."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

import optimizer.compiling as ops
from udfs.compiling.torch._numbers import to_tensor
from udfs.compiling.torch._texts import rows_with

if TYPE_CHECKING:
    from collections.abc import Sequence

    from optimizer.compiling import Operator

__all__ = ["broken"]


def broken(operator: Operator, value: torch.Tensor, tables: Sequence[torch.Tensor]) -> torch.Tensor | None:
    """Return the rows that an operator refuses, bool of shape (rows,); ``None`` for other operators."""
    if isinstance(operator, ops.Finite):
        return _fails(value, operator)
    if isinstance(operator, ops.HasText):
        return rows_with(value, torch.isnan)
    if isinstance(operator, ops.Known):
        return (tables[0] >= to_tensor(operator.sizes)).any(dim=1)
    if isinstance(operator, ops.Reject):
        return (tables[1] != 0).any(dim=1)
    if isinstance(operator, ops.Within):
        return _outside(value, operator)
    return None


def _fails(x: torch.Tensor, rule: ops.Finite) -> torch.Tensor:
    seen = x if rule.dtype == "as given" else x.to(getattr(torch, rule.dtype))
    if not torch.compiler.is_compiling() and not seen.is_sparse and seen.is_floating_point():
        flat = seen.reshape(-1)
        # One pass instead of three: the sum of squares is finite where all numbers are, and hardly ever else.
        if bool(torch.dot(flat, flat) < torch.inf):
            return torch.zeros(len(seen), dtype=torch.bool)
    wrong = torch.isinf if rule.nan else torch.isnan if rule.infinite else _not_finite
    return rows_with(seen, wrong)


def _not_finite(x: torch.Tensor) -> torch.Tensor:
    return torch.logical_not(torch.isfinite(x))


def _outside(x: torch.Tensor, rule: ops.Within) -> torch.Tensor:
    low, high = torch.from_numpy(rule.low.copy()), torch.from_numpy(rule.high.copy())
    return ((x < low) | (x > high)).any(dim=1)
