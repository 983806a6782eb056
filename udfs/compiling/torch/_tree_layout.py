"""Layout of trees for native code: tops that bit vectors decide, node order, and comparable thresholds."""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from typing import Any

    from numpy.typing import NDArray

    from optimizer.compiling import Trees

__all__ = ["LAST_RANK", "Top", "cut_top", "measure_heights", "order_siblings", "rank_thresholds", "round_down"]

LAST_RANK = np.iinfo(np.int32).max
"""Rank of a leaf's threshold: every number is at most that."""

# Exits of a top: a row's word has one bit for each.
_BITS = 32


class Top(NamedTuple):
    """Top of one tree."""

    splits: list[tuple[int, int, int]]  # node, first exit on its left, and the exit after the last one on its left
    exits: list[int]  # nodes at the lower end, from left to right, at most 32


def measure_heights(trees: Trees) -> NDArray[np.int64]:
    """Return the splits on the longest path below each node, int64 of shape (nodes,)."""
    height = np.zeros(len(trees.left), np.int64)
    level, levels = trees.root.astype(np.int64), []
    while len(level):
        inner = level[trees.left[level] != level]
        levels.append(inner)
        level = np.concatenate([trees.left[inner], trees.right[inner]]).astype(np.int64)
    for inner in reversed(levels):
        height[inner] = 1 + np.maximum(height[trees.left[inner]], height[trees.right[inner]])
    return height


def cut_top(trees: Trees, root: int, height: NDArray[np.int64]) -> Top:
    """Cut a tree so that no more exits remain than a word has bits, and what hangs below is as flat as can be."""
    inner: set[int] = set()
    waiting = [(-int(height[root]), 0, root)]
    pushed = 1
    while len(inner) < _BITS - 1 and waiting[0][0]:
        at = heapq.heappop(waiting)[2]
        inner.add(at)
        for child in (int(trees.left[at]), int(trees.right[at])):
            heapq.heappush(waiting, (-int(height[child]), pushed, child))
            pushed += 1
    splits: list[tuple[int, int, int]] = []
    exits: list[int] = []
    # In order: what is left of a split has the exits between those before it and those now.
    stack: list[tuple[int, int]] = [(root, -1)]
    while stack:
        at, first = stack.pop()
        if first >= 0:
            splits.append((at, first, len(exits)))
        elif at in inner:
            stack += [(int(trees.right[at]), -1), (at, len(exits)), (int(trees.left[at]), -1)]
        else:
            exits.append(at)
    return Top(splits, exits)


def order_siblings(trees: Trees, level: NDArray[np.int64]) -> NDArray[np.int64]:
    """Order nodes level by level, each right child just after the left one, so that one table has both children.

    Parameters
    ----------
    level : int64 array of shape (nodes of the level,)
        Places of the nodes to start from.

    Returns
    -------
    int64 array of shape (nodes,)
        Places in the table of nodes. The level comes first.
    """
    levels = [level]
    while len(level):
        inner = level[trees.left[level] != level]
        level = np.stack([trees.left[inner], trees.right[inner]], axis=1).reshape(-1).astype(np.int64)
        levels.append(level)
    return np.concatenate(levels)


def rank_thresholds(trees: Trees, columns: NDArray[np.int64]) -> tuple[list[NDArray[np.float64]], NDArray[np.int32]]:
    """Sort the thresholds of each column of the table, and find each node's place among those of its column.

    Parameters
    ----------
    columns : int64 array of shape (nodes,)
        Column that each node reads, of a table that is doubled where NaN may come.

    Returns
    -------
    list of float64 arrays
        By column, its thresholds in ascending order, each once.
    int32 array of shape (nodes,)
        A number's count of thresholds that it is not at most is at most this exactly where it goes to the left.
    """
    inner = trees.left != np.arange(len(trees.left))
    width = trees.features * (2 if trees.missing else 1)
    cuts: list[NDArray[np.float64]] = []
    rank = np.full(len(trees.left), LAST_RANK, np.int32)
    for column in range(width):
        here = inner & (columns == column)
        cuts.append(np.unique(trees.threshold[here]).astype(np.float64))
        rank[here] = np.searchsorted(cuts[-1], trees.threshold[here])
    return cuts, rank


def round_down(thresholds: NDArray[Any]) -> NDArray[np.float32]:
    """Round thresholds to float32 so that they decide the same for each number of float32; any shape."""
    with np.errstate(over="ignore"):
        near = thresholds.astype(np.float32)
        below = np.nextafter(near, np.float32(-np.inf))
    return np.where(near > thresholds, below, near).astype(np.float32)
