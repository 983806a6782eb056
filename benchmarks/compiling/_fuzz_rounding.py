"""A compiled pipeline whose operators round otherwise: how far another order of the same sums may come.

A dot product as computed is exact for terms that are as many ulp off as it has terms (Higham, Accuracy and Stability,
section 3.1), in whatever order they are added. So every operator whose last bits are nobody's gets a random error in
the bound of its library's formula: what the perturbed program gives, the library may give on another machine.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from optimizer.compiling import FEW_ROWS, Distances, Linear, Reduce
from vista_spark.compiling import CompiledPipeline

if TYPE_CHECKING:
    from optimizer.compiling import Operator

__all__ = ["ROUNDING", "operators_of", "rounded_otherwise"]

_ELEMENTWISE = frozenset(
    {"AdditiveChi2", "Bag", "Coupling", "Damped", "Function", "Interpolate", "LinearLeaves", "Link", "Monomials"}
    | {"Neighbors", "Pairwise", "Patch", "Power", "PowerTransform", "Quantiles", "Reduce", "Shares", "Sigmoid"}
    | {"Softmax", "Splines", "Ufunc"}
)
# An error of theirs is as large as the greatest number of the row makes it.
_MIXING = frozenset({"CountSketch", "KernelCentre", "LogMean", "LogSoftmax", "Normalise"})
# Operators whose last bits depend on the order of sums, or on a library's exp and log. Others have to be exact.
ROUNDING = _ELEMENTWISE | _MIXING | {"Distances", "Linear"}
_FUNCTION = 4
_SQUARES = ("euclidean", "sqeuclidean")


def operators_of(compiled: CompiledPipeline) -> set[str]:
    """Names of a program's operators."""
    return {type(node.operator).__name__ for node in compiled.program.nodes}


def rounded_otherwise(compiled: CompiledPipeline) -> CompiledPipeline:
    """Build the program again, with an error within its bound in each number that it rounds; another one each time."""
    other = CompiledPipeline(compiled.program, tree_strategy=compiled.tree_strategy, backend="eager", rewrites=False)
    random = torch.Generator().manual_seed(0)
    for dtype in ("float32", "float64"):
        engine = other._scorer.engine(dtype)  # noqa: SLF001 - one reader
        # Few rows run beside the modules, which hold the errors.
        engine._direct = lambda _: None  # noqa: SLF001
        for module in {engine.module(rows) for rows in (FEW_ROWS, FEW_ROWS + 1)}:
            for node, step in zip(engine.program.nodes, module.steps, strict=True):
                if type(node.operator).__name__ in ROUNDING:
                    step.register_forward_hook(_Error(node.operator, random))
    return other


class _Error:
    """Adds an error to what an operator gives."""

    def __init__(self, operator: Operator, random: torch.Generator) -> None:
        self._operator, self._random = operator, random

    def __call__(self, step: torch.nn.Module, inputs: tuple[torch.Tensor, ...], result: torch.Tensor) -> Any:
        if result.is_sparse or not result.is_floating_point():
            return result
        ulp = torch.finfo(result.dtype).eps
        share = 2 * torch.rand(result.shape, generator=self._random, dtype=result.dtype) - 1
        rows = (inputs[0].to_dense() if inputs[0].is_sparse else inputs[0]).to(result.dtype).abs()
        terms = (rows.shape[1] + 2) * ulp
        if isinstance(self._operator, Linear):
            weights, bias = (getattr(step, name).to(result.dtype).abs() for name in ("weights", "bias"))
            # The share first: sums of great numbers may have none.
            return result + share * (terms * rows @ weights + terms * bias)
        if isinstance(self._operator, Reduce) and self._operator.kind == "sum":
            return result + share * terms * rows.reshape(len(rows), self._operator.groups, -1).sum(dim=2)
        if isinstance(self._operator, Distances) and self._operator.metric in _SQUARES:
            # The library takes a difference of squares, which all cancel near a point.
            points = step.points.to(result.dtype).square().sum(dim=1)
            square = result if self._operator.metric == "sqeuclidean" else result.square()
            square = square + share * terms * (rows.square().sum(dim=1, keepdim=True) + points)
            return square.clamp(min=0) if self._operator.metric == "sqeuclidean" else square.clamp(min=0).sqrt()
        if type(self._operator).__name__ in _MIXING:
            greatest = torch.cat([rows, result.abs()], dim=1) if rows.ndim == result.ndim else result.abs()
            return result + share * terms * greatest.amax(dim=1, keepdim=True)
        return result + share * _FUNCTION * ulp * result.abs()
