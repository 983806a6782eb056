"""A program as one module."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

import optimizer.compiling as ops
from udfs.compiling.torch import _categories as categories
from udfs.compiling.torch import _curves as curves
from udfs.compiling.torch import _distances as distances
from udfs.compiling.torch import _ensembles as ensembles
from udfs.compiling.torch import _functions as functions
from udfs.compiling.torch import _interpolate as interpolate
from udfs.compiling.torch import _leaves as leaves
from udfs.compiling.torch import _links as links
from udfs.compiling.torch import _lookups as lookups
from udfs.compiling.torch import _nearest_fill as nearest_fill
from udfs.compiling.torch import _numbers as numbers
from udfs.compiling.torch import _texts as texts
from udfs.compiling.torch._row_checks import broken
from udfs.compiling.torch._trees import TreesModule

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from optimizer.compiling import Operator, Program

__all__ = ["ProgramModule"]

_MODULES: Mapping[type[Operator], Callable[[Any], torch.nn.Module]] = {
    **ensembles.MODULES,
    **interpolate.MODULES,
    **numbers.MODULES,
    **nearest_fill.MODULES,
    **functions.MODULES,
    **distances.MODULES,
    **categories.MODULES,
    **curves.MODULES,
    **texts.MODULES,
    **lookups.MODULES,
    **leaves.MODULES,
    **links.MODULES,
}


class ProgramModule(torch.nn.Module):
    """The operators of a program, in its order, on a table with the rows leading.

    Parameters
    ----------
    strategies : mapping of str to str
        For each node of trees, one of ``optimizer.compiling.STRATEGIES``.
    """

    def __init__(self, program: Program, strategies: Mapping[str, str]) -> None:
        super().__init__()
        self.program = program
        self.places = {node.name: place for place, node in enumerate(program.nodes)}
        self.steps = torch.nn.ModuleList(
            TreesModule(node.operator, strategies[node.name])
            if isinstance(node.operator, ops.Trees)
            else _MODULES[type(node.operator)](node.operator)
            for node in program.nodes
        )

    def forward(
        self, x: torch.Tensor, *host_tables: torch.Tensor
    ) -> tuple[dict[str, torch.Tensor], dict[str, torch.Tensor]]:
        """Run on a table of shape (rows, columns), float32 or float64, and on what the host gave for ``program.host``.

        Returns
        -------
        outputs : dict of str to torch.Tensor
            Results of shape (rows, columns of the output).
        bad : dict of str to torch.Tensor
            By the name of a node that holds rows to something: which of them fail, bool of shape (rows,).
        """
        return self.compute(x, host_tables, self.program)

    def compute(
        self,
        x: torch.Tensor,
        host_tables: Sequence[torch.Tensor],
        part: Program,
        check: Callable[..., torch.Tensor | None] = broken,
    ) -> tuple[dict[str, torch.Tensor], dict[str, torch.Tensor]]:
        """Run what a part of the program needs, from :meth:`optimizer.compiling.Program.only`, and check its rows."""
        values: dict[str, torch.Tensor] = {ops.INPUT: x}
        values |= {node.name: table for node, table in zip(self.program.host, host_tables, strict=True)}
        followed = {node.inputs[0] for node in part.nodes if type(node.operator) in leaves.MODULES}
        leaves_of: dict[str, torch.Tensor] = {}  # leaves of each node of trees that others follow
        bad: dict[str, torch.Tensor] = {}
        for node in part.nodes:
            if node.operator.host:
                continue
            step = self.steps[self.places[node.name]]
            tables = [values[name] for name in node.inputs]
            if isinstance(step, TreesModule) and node.name in followed:
                leaves_of[node.name] = step.leaves(_dense(tables[0]))
                values[node.name] = step.total(leaves_of[node.name])
            elif type(node.operator) in leaves.MODULES and node.inputs[0] in leaves_of:
                values[node.name] = step(leaves_of[node.inputs[0]], *tables[1:])
            else:
                values[node.name] = _run(step, node.operator, tables)
            fails = check(node.operator, values[node.name], tables)
            if fails is not None:
                bad[node.name] = fails
        results = {name: values[output.node] for name, output in part.outputs.items()}
        return {name: _dense(table) for name, table in results.items()}, bad


def _dense(table: torch.Tensor) -> torch.Tensor:
    return table.to_dense() if table.is_sparse else table


def _run(step: torch.nn.Module, operator: Operator, tables: list[torch.Tensor]) -> torch.Tensor:
    """Run an operator; zeros that were left out are filled in where it needs them."""
    if any(table.is_sparse for table in tables) and not isinstance(operator, ops.Linear):
        if not ops.keeps_sparse(operator):
            tables = [_dense(table) for table in tables]
        elif isinstance(operator, ops.Arithmetic):
            return texts.scaled(tables[0], operator)
        elif isinstance(operator, ops.Concatenate):
            return texts.concatenated(tables)
    result: torch.Tensor = step(*tables)
    return result
