"""Columns of the input that have an effect on the outputs of a program."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from optimizer.compiling._arithmetic import Arithmetic, Cast, Clip, Linear
from optimizer.compiling._columns import Concatenate, Finite, Select
from optimizer.compiling._program import INPUT
from optimizer.compiling._reading_marks import ReadAs
from optimizer.compiling._trees import Trees

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from optimizer.compiling._operator import Operator
    from optimizer.compiling._program import Program

__all__ = ["live_columns"]


def live_columns(program: Program) -> NDArray[np.bool_]:
    """Return the columns that have an effect on a result where all numbers are finite.

    Columns that no tree splits by, and those whose weights are all zero, have none, also behind scalers.

    Parameters
    ----------
    program : Program
        The program.

    Returns
    -------
    bool array of shape (program.width,)
        Whether each column has an effect.

    Examples
    --------
    >>> from optimizer.compiling import Linear, Node, Output, Program
    >>> sparse = Node("scores", Linear(np.array([[0.0], [2.0]]), np.zeros(1)), ("input",))
    >>> live_columns(Program(2, None, [sparse], {"predict": Output("scores", flat=True)})).tolist()
    [False, True]
    """
    live = {name: np.zeros(width, np.bool_) for name, width in program.widths.items()}
    for output in program.outputs.values():
        live[output.node][:] = True
    for node in reversed(program.nodes):
        first = 0
        for name in node.inputs:
            width = program.widths[name]
            live[name] |= _read(node.operator, live[node.name], first, width)
            first += width
    return live[INPUT]


def _read(  # noqa: PLR0911 - one for each operator
    operator: Operator, live: NDArray[np.bool_], first: int, width: int
) -> NDArray[np.bool_]:
    """Return the live columns of one input, whose columns start at `first`, for those of a result."""
    everything = np.full(width, live.any())
    if isinstance(operator, Cast | Clip | Finite | ReadAs):
        return live
    if isinstance(operator, Arithmetic):
        # Zero stays finite: over zero it would not.
        finite = np.isfinite(operator.operand) & ((operator.operand != 0) | (operator.kind != "divide"))
        both: NDArray[np.bool_] = live | ~finite
        return both
    if isinstance(operator, Concatenate):
        return live[first : first + width]
    if isinstance(operator, Select):
        read = np.zeros(width, np.bool_)
        read[operator.columns[live]] = True
        return read
    if isinstance(operator, Linear):
        used: NDArray[np.bool_] = (operator.weights[:, live] != 0).any(axis=1)
        return used
    if isinstance(operator, Trees):
        inner = operator.left != np.arange(len(operator.left))
        read = np.zeros(width, np.bool_)
        read[operator.feature[inner]] = True
        return read & everything
    return everything
