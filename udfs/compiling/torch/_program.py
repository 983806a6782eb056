"""A program as one module."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

import optimizer.compiling as ops
from udfs.compiling.torch import _distances as distances
from udfs.compiling.torch import _elementwise as elementwise
from udfs.compiling.torch import _functions as functions
from udfs.compiling.torch import _lookup as lookup
from udfs.compiling.torch import _numbers as numbers
from udfs.compiling.torch._trees import TreesModule

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from optimizer.compiling import Operator, Program

__all__ = ["ProgramModule"]

_MODULES: Mapping[type[Operator], Callable[[Any], torch.nn.Module]] = {
    **elementwise.MODULES,
    **lookup.MODULES,
    **numbers.MODULES,
    **functions.MODULES,
    **distances.MODULES,
}


class ProgramModule(torch.nn.Module):
    """The operators of a program, in its order, on a table with the rows leading.

    Parameters
    ----------
    program : Program
    strategies : mapping of str to str
        For each node of trees, one of ``optimizer.compiling.STRATEGIES``.
    """

    def __init__(self, program: Program, strategies: Mapping[str, str]) -> None:
        super().__init__()
        self.program = program
        self.steps = torch.nn.ModuleList(
            TreesModule(node.operator, strategies[node.name])
            if isinstance(node.operator, ops.Trees)
            else _MODULES[type(node.operator)](node.operator)
            for node in program.nodes
        )

    def forward(self, x: torch.Tensor) -> tuple[dict[str, torch.Tensor], dict[str, torch.Tensor]]:
        """Run on a table of shape (rows, columns), float32 or float64.

        Returns
        -------
        outputs : dict of str to torch.Tensor
            Of shape (rows, columns of the output).
        bad : dict of str to torch.Tensor
            By the name of a node that holds rows to something: which of them fail, bool of shape (rows,).
        """
        values, bad = {ops.INPUT: x}, {}
        for node, step in zip(self.program.nodes, self.steps, strict=True):
            values[node.name] = step(*(values[name] for name in node.inputs))
            if isinstance(node.operator, ops.Finite):
                bad[node.name] = _fails(values[node.name], node.operator)
            elif isinstance(node.operator, ops.Reject):
                bad[node.name] = (values[node.inputs[1]] != 0).any(dim=1)
            elif isinstance(node.operator, ops.Within):
                bad[node.name] = _outside(values[node.name], node.operator)
        return {name: values[output.node] for name, output in self.program.outputs.items()}, bad


def _fails(x: torch.Tensor, rule: ops.Finite) -> torch.Tensor:
    seen = x if rule.dtype == "as given" else x.to(getattr(torch, rule.dtype))
    wrong = torch.logical_not(torch.isfinite(seen))
    if rule.nan or rule.infinite:
        wrong = torch.isinf(seen) if rule.nan else torch.isnan(seen)
    return wrong.any(dim=1)


def _outside(x: torch.Tensor, rule: ops.Within) -> torch.Tensor:
    low, high = torch.from_numpy(rule.low.copy()), torch.from_numpy(rule.high.copy())
    return ((x < low) | (x > high)).any(dim=1)
