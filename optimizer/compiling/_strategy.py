"""Strategies that run trees: native code, or the three tensor programs of Hummingbird (thesis section 5.4.1)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from optimizer.compiling._errors import UnsupportedOperatorError
from optimizer.compiling._trees import Trees

if TYPE_CHECKING:
    from optimizer.compiling._program import Program

__all__ = ["STRATEGIES", "choose_strategies", "choose_strategy", "saved_strategy"]

STRATEGIES = ("gemm", "traversal", "perfect", "native")
"""GEMM, TreeTraversal and PerfectTreeTraversal (Algorithms 3 to 5), and native code that serves all trees."""

_REMOVED = frozenset({"bitvector"})
_GEMM_DEPTH = 3
_PERFECT_DEPTH = 10
_PERFECT_BYTES = 2**30


def choose_strategy(trees: Trees, strategy: str = "auto") -> str:
    """Choose a tensor program for trees: GEMM up to depth 3, perfect trees up to depth 10, traversal beyond.

    ``strategy`` forces one of :data:`STRATEGIES`. Raise UnsupportedOperatorError if it is unknown, or perfect trees
    would take more than 1 GiB.
    """
    _validate_strategy(strategy)
    depths = trees.depths()
    depth = int(depths.max(initial=0))
    if strategy == "auto":
        return "gemm" if depth <= _GEMM_DEPTH else "perfect" if depth <= _PERFECT_DEPTH else "traversal"
    # A perfect tree of depth d has 2^d leaves; each slot holds a place of the node table.
    if strategy == "perfect" and len(depths) * 2.0**depth * 16 > _PERFECT_BYTES:
        raise UnsupportedOperatorError(
            f"tree_strategy must fit into memory, got 'perfect' for {len(depths)} trees of depth {depth}, which takes "
            "more than 1 GiB. Use 'traversal' or 'auto'."
        )
    return strategy


def choose_strategies(program: Program, strategy: str = "auto", *, native: bool = True) -> dict[str, str]:
    """Choose a strategy for each node of trees in a program.

    ``strategy`` forces one of :data:`STRATEGIES`; ``"auto"`` is native code, or what :func:`choose_strategy` chooses
    without it, whose errors are raised also for a program without trees. Return the strategies by the names of the
    nodes.
    """
    _validate_strategy(strategy)
    if strategy in {"auto", "native"}:
        strategy = "native" if native else "auto"
    trees = {node.name: node.operator for node in program.nodes if isinstance(node.operator, Trees)}
    return {name: choose_strategy(operator, strategy) for name, operator in trees.items()}


def saved_strategy(strategy: str) -> str:
    """Return the strategy for a saved one: ``"auto"`` for those that earlier versions had."""
    return "auto" if strategy in _REMOVED else strategy


def _validate_strategy(strategy: str) -> None:
    if strategy not in {"auto", *STRATEGIES}:
        raise UnsupportedOperatorError(
            f"tree_strategy must be one of 'auto', {', '.join(map(repr, STRATEGIES))}, got {strategy!r}."
        )
