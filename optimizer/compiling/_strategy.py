"""Which tensor program runs trees: the fastest by a machine's costs, or by Hummingbird's heuristics (5.5.1)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ._cost import eager_seconds
from ._errors import UnsupportedOperatorError
from ._trees import Trees

if TYPE_CHECKING:
    from ._cost import Costs, TreeShape
    from ._program import Program

__all__ = ["STRATEGIES", "cheapest_strategy", "choose_strategy", "fits_perfect", "strategies_of"]

STRATEGIES = ("gemm", "traversal", "perfect", "bitvector", "native")
"""GEMM, TreeTraversal, PerfectTreeTraversal: Algorithms 3 to 5; the bit vectors of QuickScorer over traversal, as
tensor operators, and in machine code that serves all trees."""

_GEMM_DEPTH = 3
_PERFECT_DEPTH = 10
_PERFECT_BYTES = 2**30
_GEMM_BYTES = 2**25


def choose_strategy(trees: Trees, strategy: str = "auto") -> str:
    """Choose how trees run: GEMM up to depth 3, perfect trees up to depth 10, traversal beyond.

    Parameters
    ----------
    trees : Trees
    strategy : str
        ``"auto"``, or one of :data:`STRATEGIES` to have that one.

    Returns
    -------
    str
        One of :data:`STRATEGIES`.

    Raises
    ------
    UnsupportedOperatorError
        The strategy does not exist, or the trees, made perfect, would take more than 1 GiB.
    """
    _check(strategy)
    depths = trees.depths()
    depth = int(depths.max()) if len(depths) else 0
    if strategy == "auto":
        return "gemm" if depth <= _GEMM_DEPTH else "perfect" if depth <= _PERFECT_DEPTH else "traversal"
    if strategy == "perfect" and not fits_perfect(trees):
        raise UnsupportedOperatorError(
            f"tree_strategy='perfect': {len(depths)} perfect trees of depth {depth} take more than 1 GiB: "
            "use 'traversal' or 'auto'"
        )
    return strategy


def cheapest_strategy(trees: Trees, shape: TreeShape, rows: int, chunk: int, costs: Costs) -> str:
    """Choose the strategy that runs trees eagerly in the least predicted time."""
    possible = ["traversal", "bitvector", "native"]
    if shape.trees * shape.splits * shape.leaves * 4 <= _GEMM_BYTES:
        possible.append("gemm")
    if fits_perfect(trees):
        possible.append("perfect")
    return min(possible, key=lambda strategy: eager_seconds(shape, strategy, rows, chunk, costs))


def fits_perfect(trees: Trees) -> bool:
    """Whether the trees, made perfect, take at most 1 GiB."""
    depths = trees.depths()
    # A perfect tree of depth d has 2^d leaves; a slot of each holds a place of the node table.
    return len(depths) * 2.0 ** int(depths.max(initial=0)) * 16 <= _PERFECT_BYTES


def strategies_of(program: Program, strategy: str = "auto") -> dict[str, str]:
    """Choose how each node of trees in a program runs, by its name.

    Raises
    ------
    UnsupportedOperatorError
        As :func:`choose_strategy`; also if no node has trees.
    """
    _check(strategy)
    trees = {node.name: node.operator for node in program.nodes if isinstance(node.operator, Trees)}
    return {name: choose_strategy(operator, strategy) for name, operator in trees.items()}


def _check(strategy: str) -> None:
    if strategy not in {"auto", *STRATEGIES}:
        raise UnsupportedOperatorError(f"tree_strategy={strategy!r} is none of auto, {', '.join(STRATEGIES)}")
