"""Rows that break row validation operators."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

import optimizer.compiling as ops
from udfs.compiling.torch._numbers import to_tensor
from udfs.compiling.torch._texts import rows_with

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from optimizer.compiling import Operator

__all__ = ["broken", "broken_cells"]


def broken(operator: Operator, value: torch.Tensor, tables: Sequence[torch.Tensor]) -> torch.Tensor | None:
    """Return the rows that an operator refuses, bool of shape (rows,); ``None`` for other operators."""
    if isinstance(operator, ops.Finite):
        return _fails(value, operator)
    if isinstance(operator, ops.HasText):
        return rows_with(value, torch.isnan)
    cells = broken_cells(operator, value, tables)
    return None if cells is None else cells.any(dim=1)


def broken_cells(operator: Operator, value: torch.Tensor, tables: Sequence[torch.Tensor]) -> torch.Tensor | None:
    """Return the cells that an operator refuses, bool of shape (rows, columns); ``None`` for other operators."""
    if isinstance(operator, ops.Finite):
        return _wrong(operator)(_seen(value.to_dense(), operator))
    if isinstance(operator, ops.HasText):
        return rows_with(value, torch.isnan)[:, None]
    if isinstance(operator, ops.Known):
        return tables[0] >= to_tensor(operator.sizes)
    if isinstance(operator, ops.Reject):
        return tables[1] != 0
    if isinstance(operator, ops.Within):
        return _outside(value, operator)
    return None


def _fails(x: torch.Tensor, rule: ops.Finite) -> torch.Tensor:
    seen = _seen(x, rule)
    if not torch.compiler.is_compiling() and not seen.is_sparse and seen.is_floating_point():
        flat = seen.reshape(-1)
        # One pass instead of three: the sum of squares is finite where all numbers are, and hardly ever else.
        if bool(torch.dot(flat, flat) < torch.inf) or (rule.nan and not _has_infinity(flat)):
            return torch.zeros(len(seen), dtype=torch.bool)
    return rows_with(seen, _wrong(rule))


def _has_infinity(flat: torch.Tensor) -> bool:
    numbers = flat.numpy()
    # Unlike torch, numpy leaves NaN out of these.
    return bool(len(flat)) and (np.fmax.reduce(numbers) == np.inf or np.fmin.reduce(numbers) == -np.inf)


def _seen(x: torch.Tensor, rule: ops.Finite) -> torch.Tensor:
    return x if rule.dtype == "as given" else x.to(getattr(torch, rule.dtype))


def _wrong(rule: ops.Finite) -> Callable[[torch.Tensor], torch.Tensor]:
    return torch.isinf if rule.nan else torch.isnan if rule.infinite else _not_finite


def _not_finite(x: torch.Tensor) -> torch.Tensor:
    return torch.logical_not(torch.isfinite(x))


def _outside(x: torch.Tensor, rule: ops.Within) -> torch.Tensor:
    low, high = torch.from_numpy(rule.low.copy()), torch.from_numpy(rule.high.copy())
    return (x < low) | (x > high)
