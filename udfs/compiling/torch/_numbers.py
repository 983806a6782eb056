"""Operators that compute with each number, choose columns and make classes of scores."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

import optimizer.compiling as ops

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from optimizer.compiling import (
        Above,
        ArgMax,
        Arithmetic,
        Cast,
        Impute,
        Linear,
        Normalise,
        Operator,
        Select,
    )

__all__ = ["MODULES", "Apply", "ImputeModule", "LinearModule", "SelectModule", "to_tensor", "unit_rows"]

_OPERATIONS: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "add": torch.add,
    "subtract": torch.sub,
    "multiply": torch.mul,
    "divide": torch.div,
}
_ORDERS = {"l1": 1, "l2": 2, "max": float("inf")}


def to_tensor(array: object) -> torch.Tensor:
    """Copy an array into a tensor, for arrays that are read-only."""
    return torch.from_numpy(np.array(array))


class Apply(torch.nn.Module):
    """Operator without tensors of its own: a function of tables with the rows leading."""

    def __init__(self, function: Callable[..., torch.Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *tables: torch.Tensor) -> torch.Tensor:
        """Run on batches of shape (rows, columns)."""
        return self.function(*tables)


def is_running(x: torch.Tensor) -> bool:
    """Return whether a dense table is computed, and not a graph traced, so that numpy may take part."""
    return torch.is_inference_mode_enabled() and not torch.compiler.is_compiling() and not x.is_sparse


class SelectModule(torch.nn.Module):
    """Gather columns."""

    columns: torch.Tensor

    def __init__(self, operator: Select) -> None:
        super().__init__()
        self.register_buffer("columns", to_tensor(operator.columns.astype(np.int64)))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Run on a batch of shape (rows, columns)."""
        if is_running(x):  # numpy gathers columns four times as fast
            return torch.from_numpy(x.numpy().take(self.columns.numpy(), axis=1))
        return x.index_select(1, self.columns)


def _cast(operator: Cast) -> Apply:
    dtype = getattr(torch, operator.dtype)
    return Apply(lambda x: x.to(dtype))


class ArithmeticModule(torch.nn.Module):
    """Compute in the wider type, and round to the input's."""

    operand: torch.Tensor

    def __init__(self, operator: Arithmetic) -> None:
        super().__init__()
        self.operation, self.rounded = _OPERATIONS[operator.kind], operator.rounded
        self.register_buffer("operand", to_tensor(operator.operand))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Run on a batch of shape (rows, columns)."""
        operand = self.operand.to(x.dtype) if self.rounded else self.operand
        return self.operation(x, operand).to(x.dtype)


class ImputeModule(torch.nn.Module):
    """Fill what is missing."""

    values: torch.Tensor

    def __init__(self, operator: Impute) -> None:
        super().__init__()
        self.missing = operator.missing
        self.register_buffer("values", to_tensor(operator.values))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Run on a batch of shape (rows, columns)."""
        if is_running(x) and self.missing != self.missing:  # numpy fills holes twice as fast
            numbers = x.numpy()
            filled = numbers.copy()
            np.copyto(filled, self.values.numpy(), where=np.isnan(numbers), casting="same_kind")
            return torch.from_numpy(filled)
        holes = torch.isnan(x) if self.missing != self.missing else x == self.missing
        return torch.where(holes, self.values.to(x.dtype), x)


# Columns of a product that do not fill vectors.
_THIN = 16


class LinearModule(torch.nn.Module):
    """Multiply by a matrix in the wider type, and add a bias in the widest."""

    weights: torch.Tensor
    bias: torch.Tensor
    turned: torch.Tensor | None

    def __init__(self, operator: Linear) -> None:
        super().__init__()
        self.register_buffer("weights", to_tensor(operator.weights))
        self.register_buffer("bias", to_tensor(operator.bias))
        # Of few columns, libraries of matrix products are faster by a factor of two where each is contiguous.
        thin = 1 < operator.weights.shape[1] <= _THIN
        self.register_buffer("turned", to_tensor(operator.weights.T.copy()) if thin else None)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Run on a batch of shape (rows, columns)."""
        dtype = torch.promote_types(x.dtype, self.weights.dtype)
        x = x.to(dtype)
        if self.turned is None or x.is_sparse:
            return x @ self.weights.to(dtype) + self.bias
        if dtype == self.bias.dtype == torch.float32:
            # A search for the greatest is faster over columns that are each contiguous.
            return torch.addmm(self.bias.unsqueeze(1), self.turned, x.t()).t()
        return torch.nn.functional.linear(x, self.turned.to(dtype)) + self.bias


def unit_rows(x: torch.Tensor, order: float = 2.0) -> torch.Tensor:
    """Divide each row of a table of shape (rows, columns) by its norm, as scikit-learn does."""
    x = x if x.is_floating_point() else x.double()
    norm = _row_norms(x, order)
    # It takes a norm below ten times the type's step for zero, and leaves such a row as it is.
    return x / torch.where(norm < 10 * torch.finfo(x.dtype).eps, torch.ones_like(norm), norm)


def _row_norms(x: torch.Tensor, order: float) -> torch.Tensor:
    """Return the norm of each row, of shape (rows, 1), by powers: the square of a small number vanishes."""
    # torch takes the magnitude of a single number for its norm.
    seen = torch.nn.functional.pad(x, (0, 1)) if x.shape[1] == 1 and order < float("inf") else x
    norm: torch.Tensor = torch.linalg.vector_norm(seen, order, dim=1, keepdim=True)
    return norm


def _normalise(operator: Normalise) -> Apply:
    order = _ORDERS.get(operator.norm, operator.p)

    def run(x: torch.Tensor) -> torch.Tensor:
        x = x if x.is_floating_point() else x.double()
        # A search for the greatest by ">" passes over NaN; a sum does not.
        seen = x if order < float("inf") else torch.where(torch.isnan(x), 0, x)
        norm = _row_norms(seen, order)
        return torch.where(norm == 0, x, x / norm)

    return Apply((lambda x: unit_rows(x, order)) if operator.tiny else run)


def _arg_max(operator: ArgMax) -> Apply:
    """Return a module that finds the place of the greatest number, the first of equals."""

    def run(x: torch.Tensor) -> torch.Tensor:
        if operator.nan == "greatest":
            return _place_of_greatest(x)
        nan = torch.isnan(x)
        place = _place_of_greatest(torch.where(nan, -torch.inf, x))
        return torch.where(nan[:, :1], 0, place) if operator.nan == "stays first" else place

    return Apply(run)


def _place_of_greatest(x: torch.Tensor) -> torch.Tensor:
    # ``argmax`` finds the same, three times as slowly.
    return x.max(dim=1, keepdim=True).indices


def _above(operator: Above) -> Apply:
    compare = torch.ge if operator.or_equal else torch.gt
    return Apply(lambda x: compare(x, operator.threshold).to(torch.int64))


MODULES: Mapping[type[Operator], Callable[[Any], torch.nn.Module]] = {
    ops.Above: _above,
    ops.ArgMax: _arg_max,
    ops.Arithmetic: ArithmeticModule,
    ops.Cast: _cast,
    ops.Clip: lambda operator: Apply(lambda x: x.clamp(operator.low, operator.high)),
    # As the library's comparison with a number of Python does, this one rounds it to the table's type first.
    ops.Compare: lambda operator: Apply(lambda x: (x > operator.threshold).to(x.dtype)),
    ops.Complement: lambda _: Apply(lambda x: torch.cat([1 - x, x], dim=1)),
    ops.Concatenate: lambda _: Apply(lambda *tables: torch.cat(tables, dim=1)),
    ops.Finite: lambda _: torch.nn.Identity(),
    ops.Impute: ImputeModule,
    ops.Linear: LinearModule,
    ops.Normalise: _normalise,
    ops.Select: SelectModule,
    ops.Sigmoid: lambda _: Apply(torch.sigmoid),
    ops.Softmax: lambda _: Apply(lambda x: torch.softmax(x, dim=1)),
}
"""Constructors of modules, by operator class."""
