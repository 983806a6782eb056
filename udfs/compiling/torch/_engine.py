"""A program that is ready to run: numpy in, numpy out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch

from optimizer.compiling import Finite, Reject, Trees, strategies_of
from udfs.compiling.torch._program import ProgramModule

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from optimizer.compiling import Program

__all__ = ["Answer", "Engine"]

# Gathers are fastest while the indices of a chunk of rows stay in the second-level cache.
_INDICES = 2**17
_LEAST, _MOST = 64, 8192


class Answer(NamedTuple):
    """Results of a program for a table.

    Parameters
    ----------
    outputs : dict of str to array
        Of shape (rows, columns), or (rows,) for a flat output; names of classes where the output has them.
    bad : bool array of shape (rows,)
        Rows that the library refuses. Their results mean nothing.
    reasons : list of str
        One for each rule that some row breaks.
    """

    outputs: dict[str, NDArray[Any]]
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
        self.chunk = min(max(_INDICES // most, _LEAST), _MOST)

    def run(self, table: NDArray[Any]) -> Answer:
        """Run on a table of shape (rows, columns), float32 or float64."""
        starts = range(0, max(len(table), 1), self.chunk)
        with torch.inference_mode():
            parts = [self.module(torch.from_numpy(np.ascontiguousarray(table[at : at + self.chunk]))) for at in starts]
        outputs = {}
        for name, output in self.program.outputs.items():
            values = torch.cat([given[name] for given, _ in parts]).numpy()
            values = values[:, 0] if output.flat else values
            outputs[name] = values if output.labels is None else output.labels[values]
        bad, reasons = np.zeros(len(table), np.bool_), []
        for node in self.program.nodes:
            if isinstance(node.operator, Finite | Reject):
                fails = torch.cat([rules[node.name] for _, rules in parts]).numpy()
                bad |= fails
                if fails.any():
                    reasons.append(reason_of(node.operator))
        return Answer(outputs, bad, reasons)


def reason_of(rule: Finite | Reject) -> str:
    """Say what a row must not have."""
    if isinstance(rule, Reject):
        return rule.why
    if rule.infinite:
        return f"NaN, which {rule.who} does not take"
    held = "an infinity" if rule.nan else "NaN or an infinity"
    return f"{held}{' in float32' if rule.dtype == 'float32' else ''}, which {rule.who} does not take"
