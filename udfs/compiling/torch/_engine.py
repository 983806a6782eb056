"""A program that is ready to run: numpy in, numpy out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch

from optimizer.compiling import (
    Finite,
    HasText,
    Known,
    Linear,
    Reject,
    SparseRows,
    Trees,
    Within,
    sparse_nodes,
    strategies_of,
)
from udfs.compiling.torch._program import ProgramModule
from udfs.compiling.torch._texts import sparse_tensor

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from optimizer.compiling import Node, Program

__all__ = ["Answer", "Engine"]

# Gathers are fastest while the indices of a chunk of rows stay in the second-level cache.
_INDICES = 2**17
_LEAST, _MOST = 64, 8192
# Of a wide table, so many numbers at a time.
_WIDE, _NUMBERS = 1024, 2**20


class Answer(NamedTuple):
    """Results of a program for a table.

    Parameters
    ----------
    outputs : dict of str to array, or list of arrays
        As the library gives them: see :class:`optimizer.compiling.Output`.
    bad : bool array of shape (rows,)
        Rows that the library refuses. Their results mean nothing.
    reasons : list of str
        One for each rule that some row breaks.
    """

    outputs: dict[str, Any]
    bad: NDArray[np.bool_]
    reasons: list[str]


class Engine:
    """Run a program eagerly, a chunk of rows at a time.

    Parameters
    ----------
    program : Program
    tree_strategy : str
        ``"auto"``, or one of ``optimizer.compiling.STRATEGIES`` for all trees.
    """

    def __init__(self, program: Program, tree_strategy: str = "auto") -> None:
        self.program = program
        self.module = ProgramModule(program, strategies_of(program, tree_strategy)).eval()
        trees = [node.operator for node in program.nodes if isinstance(node.operator, Trees)]
        most = max((len(operator.root) * operator.value.shape[1] for operator in trees), default=1)
        # Tables of distances to a model's points, and of their kernels, may be thousands of columns wide.
        points = [len(getattr(node.operator, "points", ())) for node in program.nodes]
        sparse = sparse_nodes(program)
        widths = [width for name, width in program.widths.items() if width > _WIDE and name not in sparse]
        filled = [program.widths[name] for node in program.nodes for name in node.inputs if _fills(node, name, sparse)]
        widest = max([*points, *widths, *filled], default=0)
        self.chunk = min(max(_INDICES // most, _LEAST), max(_NUMBERS // max(widest, 1), _LEAST), _MOST)

    def run(self, table: NDArray[Any], given: Sequence[NDArray[Any] | SparseRows] = ()) -> Answer:
        """Run on a table of shape (rows, columns), float32 or float64.

        Parameters
        ----------
        table : array of shape (rows, columns)
        given : sequence of arrays
            What the host gave for each of ``program.host``: :class:`udfs.compiling.ColumnReader` makes both.
        """
        starts = range(0, max(len(table), 1), self.chunk)
        with torch.inference_mode():
            parts = [self.module(*(_tensor(part[at : at + self.chunk]) for part in (table, *given))) for at in starts]
        outputs = {}
        for name, output in self.program.outputs.items():
            outputs[name] = output.answer(torch.cat([given[name] for given, _ in parts]).numpy())
        bad, reasons = np.zeros(len(table), np.bool_), []
        for node in self.program.nodes:
            if isinstance(node.operator, Finite | HasText | Known | Reject | Within):
                fails = torch.cat([rules[node.name] for _, rules in parts]).numpy()
                bad |= fails
                if fails.any():
                    reasons.append(reason_of(node.operator))
        return Answer(outputs, bad, reasons)


def _fills(node: Node, name: str, sparse: frozenset[str]) -> bool:
    """Whether an operator has the zeros of a sparse table."""
    return name in sparse and node.name not in sparse and not isinstance(node.operator, Linear)


def _tensor(part: NDArray[Any] | SparseRows) -> torch.Tensor:
    if isinstance(part, SparseRows):
        return sparse_tensor(part)
    return torch.from_numpy(np.ascontiguousarray(part))


def reason_of(rule: Finite | HasText | Known | Reject | Within) -> str:
    """Say what a row must not have."""
    if isinstance(rule, Known):
        return f"a category that {rule.who} does not know"
    if isinstance(rule, HasText):
        return f"no text, which {rule.who} does not take"
    return rule.reason
