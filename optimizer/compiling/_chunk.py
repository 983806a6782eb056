"""Rows of a chunk, by what caches hold."""

from __future__ import annotations

from typing import TYPE_CHECKING

from optimizer.compiling._arithmetic import Linear
from optimizer.compiling._sparsity import sparse_nodes
from optimizer.compiling._trees import Trees

if TYPE_CHECKING:
    from optimizer.compiling._program import Node, Program

__all__ = ["FEW_ROWS", "WALKED_ROWS", "rows_at_a_time"]

FEW_ROWS = 64
"""Most rows of a table that runs as a list of calls, since calls take most of its time."""
WALKED_ROWS = 4
"""Most rows that walk their trees alone in native code, since a vector would be all but empty."""

# Gathers are fastest while the indices of a chunk of rows stay in the second-level cache.
_INDICES = 2**17
_LEAST, _MOST = 64, 8192
# Limit the numbers per chunk, so that an operator finds the output of the previous one in the cache, and the allocator
# reuses its memory: results of some MB are new pages each time, which takes longer than arithmetic.
_WIDE, _NUMBERS, _ROWS = 256, 2**19, 2048


def rows_at_a_time(program: Program, *, native: bool = False) -> int:
    """Choose the rows of a chunk, by what the caches hold of trees and of wide tables.

    Native code of trees cuts blocks itself, and has no indices.
    """
    trees = [node.operator for node in program.nodes if isinstance(node.operator, Trees) and not native]
    most = max((len(operator.root) * operator.value.shape[1] for operator in trees), default=1)
    # Tables of distances to a model's points, and of their kernels, may be thousands of columns wide.
    points = [len(getattr(node.operator, "points", ())) for node in program.nodes]
    sparse = sparse_nodes(program)
    widths = [width for name, width in program.widths.items() if width > _WIDE and name not in sparse]
    filled = [program.widths[name] for node in program.nodes for name in node.inputs if _fills(node, name, sparse)]
    widest = max([*points, *widths, *filled], default=0)
    if not widest and not any(isinstance(node.operator, Trees) for node in program.nodes):
        return min(max(_NUMBERS // max(program.widths.values()), _LEAST), _ROWS)
    return min(max(_INDICES // max(most, 1), _LEAST), max(_NUMBERS // max(widest, 1), _LEAST), _MOST)


def _fills(node: Node, name: str, sparse: frozenset[str]) -> bool:
    """Return whether an operator fills in the zeros of a sparse table."""
    return name in sparse and node.name not in sparse and not isinstance(node.operator, Linear)
