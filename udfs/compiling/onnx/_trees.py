"""Trees by gathers, level after level, and what follows them: the bits are those of the tensor program.

``TreeEnsemble`` of ai.onnx.ml adds leaves in whatever order its runtime shares them among threads, so that two classes
whose scores are all but equal may come out the other way, and versions before 5 give float32 alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

import optimizer.compiling as ops

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from udfs.compiling.onnx._graph import Graph, Table

__all__ = ["LEAVES", "leaves_of", "sum_of"]


def leaves_of(graph: Graph, trees: ops.Trees, x: Table) -> Table:
    """Find the leaf of each row in each tree: places in the table of nodes, int64 of shape (rows, trees)."""
    x = graph.cast(x, trees.threshold.dtype.name)
    columns = trees.feature.astype(np.int64)
    if trees.missing:
        # The first half has minus infinity for NaN, which goes left; the second keeps NaN, which goes right.
        low = graph.either(graph.missing(x), graph.constant(-np.inf, x.dtype), x)
        x = graph.join(low, x)
        columns = columns + np.where(trees.missing_left, 0, trees.features)
    feature, threshold = graph.constant(columns), graph.constant(trees.threshold)
    left, right = (graph.constant(children.astype(np.int64)) for children in (trees.left, trees.right))
    at = graph.filled(x, trees.root.astype(np.int64))
    for _ in range(int(trees.depths().max(initial=0))):
        number = graph.add("GatherElements", x, graph.add("Gather", feature, at), axis=1)
        limit = graph.add("Gather", threshold, at)
        stays = graph.compare("LessOrEqual", number, limit)
        if not trees.missing:  # a row with NaN, which is bad, goes left as in the tensor program
            stays = graph.add("Not", graph.compare("Greater", number, limit))
        at = graph.either(stays, graph.add("Gather", left, at), graph.add("Gather", right, at))
    return at


def sum_of(graph: Graph, trees: ops.Trees, leaf: Table) -> Table:
    """Add the values of leaves in the order of the trees."""
    rounds, columns = _rounds(trees), len(trees.base)
    values, width = trees.value, trees.value.shape[1]
    if (rounds == len(trees.root)).any():
        # The place after the last node adds nothing.
        values = np.concatenate([values, np.zeros((1, width), values.dtype)])
        leaf = graph.join(leaf, graph.filled(leaf, np.array([len(trees.value)])))
    if len(rounds):
        picked = graph.columns(leaf, rounds.reshape(-1))
        added = graph.shaped(graph.add("Gather", graph.constant(values), picked, axis=0), len(rounds), columns)
        base = graph.filled(leaf, trees.base[None])
        total = graph.running_sum(graph.join(base, added))
    else:
        total = graph.filled(leaf, trees.base)
    return total if trees.divisor == 1 else graph.add("Div", total, graph.constant(trees.divisor, total.dtype))


def _rounds(trees: ops.Trees) -> NDArray[np.int64]:
    """Return the trees by round and column of the result; the number of trees stands for none."""
    if trees.value.shape[1] > 1 or len(trees.base) == 1:
        return np.arange(len(trees.root), dtype=np.int64)[:, None]
    members_of = [np.flatnonzero(trees.target == column) for column in range(len(trees.base))]
    grid = np.full((max(len(column) for column in members_of), len(members_of)), len(trees.root), np.int64)
    for column, members in enumerate(members_of):
        grid[: len(members), column] = members
    return grid


def _leaves(graph: Graph, operator: ops.Leaves, leaf: Table) -> Table:
    numbers = graph.add("Gather", graph.constant(operator.number), leaf)
    return graph.shaped(numbers, operator.trees // operator.columns, operator.columns) if operator.columns else numbers


LEAVES: Mapping[type[ops.Operator], Callable[..., Table]] = {ops.Leaves: _leaves}
"""Functions that add the nodes of an operator on leaves to an ONNX graph, by operator class."""
