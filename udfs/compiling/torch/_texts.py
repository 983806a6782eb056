"""Operators on counts of terms, and tables that leave their zeros out."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

import optimizer.compiling as ops
from udfs.compiling.torch._numbers import to_tensor

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from optimizer.compiling import Arithmetic, Damped, Operator, SparseRows

__all__ = ["MODULES", "DampedModule", "concatenated", "rows_with", "scaled", "sparse_tensor"]


class DampedModule(torch.nn.Module):
    """Weight counts."""

    weights: torch.Tensor

    def __init__(self, operator: Damped) -> None:
        super().__init__()
        self.sublinear, self.norm = operator.sublinear, operator.norm
        self.register_buffer("weights", to_tensor(operator.weights))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Run on a batch of shape (rows, columns)."""
        if self.sublinear:
            x = torch.where(x != 0, torch.log(x) + 1, x)
        if len(self.weights):
            x = (x * self.weights).to(x.dtype)
        if not self.norm:
            return x
        order = {"l1": 1.0, "l2": 2.0, "max": float("inf")}[self.norm]
        norm = torch.linalg.vector_norm(x, order, dim=1, keepdim=True)
        return x / torch.where(norm == 0, torch.ones_like(norm), norm)


def sparse_tensor(rows: SparseRows) -> torch.Tensor:
    """Make a sparse tensor of shape (rows, width), sorted by row and column."""
    starts = torch.from_numpy(rows.starts)
    places = torch.repeat_interleave(torch.arange(len(rows)), starts.diff())
    indices = torch.stack([places, to_tensor(rows.columns)])
    # Rows are sorted and no column comes twice: BagReader sees to it.
    return torch.sparse_coo_tensor(
        indices, to_tensor(rows.values), (len(rows), rows.width), is_coalesced=True, check_invariants=False
    )


def scaled(x: torch.Tensor, operator: Arithmetic) -> torch.Tensor:
    """Multiply or divide the columns of a sparse table."""
    indices, values = x.indices(), x.values()
    operand = to_tensor(operator.operand)[indices[1]]
    operand = operand.to(x.dtype) if operator.rounded else operand
    values = (values * operand if operator.kind == "multiply" else values / operand).to(x.dtype)
    return torch.sparse_coo_tensor(indices, values, x.shape, is_coalesced=True, check_invariants=False)


def concatenated(tables: list[torch.Tensor]) -> torch.Tensor:
    """Join sparse and dense tables to a sparse one."""
    dtype = torch.float32 if all(table.dtype == torch.float32 for table in tables) else torch.float64
    parts = [(table if table.is_sparse else table.to_sparse()).to(dtype) for table in tables]
    return torch.cat(parts, dim=1).coalesce()


def rows_with(x: torch.Tensor, wrong: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
    """Find the rows that have a number that is wrong, in a sparse table or a dense one."""
    if not x.is_sparse:
        return wrong(x).any(dim=1)
    flags = torch.zeros(x.shape[0], dtype=torch.bool)
    flags[x.indices()[0][wrong(x.values())]] = True
    return flags


MODULES: Mapping[type[Operator], Callable[[Any], torch.nn.Module]] = {
    ops.Bag: lambda _: torch.nn.Identity(),
    ops.Damped: DampedModule,
    ops.HasText: lambda _: torch.nn.Identity(),
}
"""Constructors of modules, by operator class."""
