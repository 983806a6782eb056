"""Trees by bit vectors: each split strikes out the leaves that a row cannot reach any more.

Of QuickScorer (Lucchese et al., SIGIR 2015): the splits of a tree are decided in any order, and each one that sends a
row to the right takes the leaves on its left out of a word of 32 bits. The lowest bit that stays is the leaf. There are
no jumps, so a compiler makes vectors of rows of it. A tree with more leaves than bits is cut: bit vectors decide its
top, and what hangs below is walked level by level.
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch

from udfs.compiling.torch._layout import laid_out
from udfs.compiling.torch._numbers import tensor_of

if TYPE_CHECKING:
    from typing import Any

    from numpy.typing import NDArray

    from optimizer.compiling import Trees

__all__ = ["BitVectors"]

_BITS = 32
# Trees are bucketed by the splits of their tops: a bucket is a loop of its own, which takes time to compile.
_BUCKETS = (8, 16, 24, _BITS)
_FLOAT_EXPONENT, _EXPONENT_MASK, _EXPONENT_BIAS = 23, 255, 127
_LAST_RANK = np.iinfo(np.int32).max


class _Top(NamedTuple):
    splits: list[tuple[int, int, int]]  # a node, and the range of exits on its left
    exits: list[int]


class _Nodes(NamedTuple):
    column: NDArray[np.int32]
    threshold: NDArray[np.float32]
    rank: NDArray[np.int32]


class BitVectors(torch.nn.Module):
    """Find the leaf of each row in each tree, as a place in the table of nodes.

    Thresholds of float64 are compared as ranks: a number's rank among all thresholds of its feature, which is at most
    a threshold's rank exactly where the number is at most the threshold. A table of float32 needs no ranks: thresholds
    rounded down decide the same.

    Parameters
    ----------
    trees : Trees
    columns : int64 array of shape (nodes,)
        Which column of the table a node reads; the table is doubled where NaN may come.
    """

    order: torch.Tensor
    cuts: torch.Tensor
    node: torch.Tensor
    walk_feature: torch.Tensor
    walk_child: torch.Tensor
    walk_threshold: torch.Tensor
    walk_rank: torch.Tensor

    def __init__(self, trees: Trees, columns: NDArray[np.int64]) -> None:
        super().__init__()
        self.missing, self.ranked = trees.missing, trees.threshold.dtype == np.float64
        height = _heights(trees)
        tops = [_top_of(trees, int(root), height) for root in trees.root]
        bucket = [min(size for size in _BUCKETS if len(top.splits) <= size) for top in tops]
        below = [int(height[top.exits].max()) for top in tops]
        # Trees of few splits that are cut (a chain) are walked: they may not lengthen the walks of the others.
        keys = sorted({(size, steps > 0) for size, steps in zip(bucket, below, strict=True)})
        order = _below(trees, tops)
        place = np.zeros(len(trees.left), np.int64)
        place[order] = np.arange(len(order))
        cuts, ranks = _ranks(trees, columns)
        table = _Nodes(columns.astype(np.int32), _rounded_down(trees.threshold), ranks)
        members: list[int] = []
        self.groups: list[tuple[int, int, int]] = []
        for number, key in enumerate(keys):
            own = [tree for tree in range(len(tops)) if (bucket[tree], below[tree] > 0) == key]
            members += own
            steps = max(below[tree] for tree in own)
            splits = max(len(tops[tree].splits) for tree in own)
            self.groups.append((number, splits, steps))
            self._enter(number, table, [tops[tree] for tree in own], place if steps else None)
        self.sorted = members == sorted(members)
        self.register_buffer("order", tensor_of(np.argsort(np.asarray(members, np.int64))))
        for name, array in {
            "cuts": cuts,
            "node": order.astype(np.int32),
            "walk_feature": table.column[order],
            "walk_child": place[trees.left[order]].astype(np.int32),
            "walk_threshold": table.threshold[order],
            "walk_rank": table.rank[order],
        }.items():
            self.register_buffer(name, tensor_of(array))

    def _enter(self, number: int, table: _Nodes, tops: list[_Top], place: NDArray[np.int64] | None) -> None:
        splits, exits = max(len(top.splits) for top in tops), max(len(top.exits) for top in tops)
        shape = (splits, len(tops))
        # A split that only fills up strikes nothing out.
        node, mask = np.full(shape, -1, np.int64), np.full(shape, -1, np.int64)
        ends = np.zeros((len(tops), exits), np.int32)
        for tree, top in enumerate(tops):
            for row, (at, first, last) in enumerate(top.splits):
                node[row, tree] = at
                mask[row, tree] = ~((1 << last) - (1 << first))
            ends[tree, : len(top.exits)] = top.exits if place is None else place[top.exits]
        arrays = {
            "feature": np.where(node < 0, 0, table.column[node]).astype(np.int32),
            "threshold": np.where(node < 0, np.float32(np.inf), table.threshold[node]),
            "rank": np.where(node < 0, _LAST_RANK, table.rank[node]).astype(np.int32),
            "mask": (mask & (2**_BITS - 1)).astype(np.uint32).view(np.int32),
            "exit": ends.reshape(-1),
            "first": (np.arange(len(tops)) * exits).astype(np.int32)[:, None],
        }
        for name, array in arrays.items():
            self.register_buffer(f"{name}_{number}", tensor_of(array))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Leaves of shape (rows, trees)."""
        ranked = self.ranked and x.dtype == torch.float64
        table = self._table(x, ranked=ranked)
        leaves = [self._group(table, *group, ranked=ranked) for group in self.groups]
        found = leaves[0] if len(leaves) == 1 else torch.cat(leaves)
        return (found if self.sorted else found.index_select(0, self.order)).t()

    def _table(self, x: torch.Tensor, *, ranked: bool) -> torch.Tensor:
        x = x if ranked else x.to(torch.float32)
        if self.missing:
            x = torch.cat([torch.where(torch.isnan(x), -torch.inf, x), x], dim=1)
        turned = laid_out(x.t())
        return torch.searchsorted(self.cuts, turned.contiguous(), out_int32=True) if ranked else turned

    def _group(self, table: torch.Tensor, number: int, splits: int, steps: int, *, ranked: bool) -> torch.Tensor:
        feature, mask = getattr(self, f"feature_{number}"), getattr(self, f"mask_{number}")
        limit = getattr(self, f"rank_{number}" if ranked else f"threshold_{number}")
        alive = torch.full((), -1, dtype=torch.int32).expand(feature.shape[1], table.shape[1])
        for row in range(splits):
            value = torch.nn.functional.embedding(feature[row], table)
            alive = alive & torch.where(self._right(value, limit[row][:, None]), mask[row][:, None], -1)
        # A float of the lowest bit has its place as exponent.
        lowest = (alive & -alive).to(torch.float32).view(torch.int32)
        bit = ((lowest >> _FLOAT_EXPONENT) & _EXPONENT_MASK) - _EXPONENT_BIAS
        at = _take(getattr(self, f"exit_{number}"), bit + getattr(self, f"first_{number}"))
        return self._walk(table, at, steps, ranked=ranked) if steps else at

    def _walk(self, table: torch.Tensor, at: torch.Tensor, steps: int, *, ranked: bool) -> torch.Tensor:
        flat, rows = table.reshape(-1), table.shape[1]
        row = torch.arange(rows, dtype=torch.int32)
        limit = self.walk_rank if ranked else self.walk_threshold
        for _ in range(steps):
            value = _take(flat, _take(self.walk_feature, at) * rows + row)
            at = _take(self.walk_child, at) + self._right(value, _take(limit, at)).to(torch.int32)
        return _take(self.node, at)

    def _right(self, value: torch.Tensor, limit: torch.Tensor) -> torch.Tensor:
        return torch.logical_not(value <= limit) if self.missing else value > limit


def _take(table: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
    """Gather numbers by places of 32 bits: an embedding of one column, which checks no sign."""
    return torch.nn.functional.embedding(at, table[:, None]).squeeze(-1)


def _heights(trees: Trees) -> NDArray[np.int64]:
    """Splits on the longest path below each node."""
    height = np.zeros(len(trees.left), np.int64)
    level, levels = trees.root.astype(np.int64), []
    while len(level):
        inner = level[trees.left[level] != level]
        levels.append(inner)
        level = np.concatenate([trees.left[inner], trees.right[inner]]).astype(np.int64)
    for inner in reversed(levels):
        height[inner] = 1 + np.maximum(height[trees.left[inner]], height[trees.right[inner]])
    return height


def _top_of(trees: Trees, root: int, height: NDArray[np.int64]) -> _Top:
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
    return _Top(splits, exits)


def _below(trees: Trees, tops: list[_Top]) -> NDArray[np.int64]:
    """Nodes from the exits down, level by level, siblings side by side: one table has both children."""
    level = np.concatenate([top.exits for top in tops] or [[]]).astype(np.int64)
    levels = [level]
    while len(level):
        inner = level[trees.left[level] != level]
        level = np.stack([trees.left[inner], trees.right[inner]], axis=1).reshape(-1).astype(np.int64)
        levels.append(level)
    return np.concatenate(levels)


def _ranks(trees: Trees, columns: NDArray[np.int64]) -> tuple[NDArray[np.float64], NDArray[np.int32]]:
    """Thresholds of each column of the table, sorted and filled up with infinities; and each node's place there."""
    inner = trees.left != np.arange(len(trees.left))
    width = trees.features * (2 if trees.missing else 1)
    own = [np.unique(trees.threshold[inner & (columns == column)]) for column in range(width)]
    cuts = np.full((width, max((len(one) for one in own), default=0)), np.inf)
    rank = np.full(len(trees.left), _LAST_RANK, np.int32)
    for column, one in enumerate(own):
        cuts[column, : len(one)] = one
        here = inner & (columns == column)
        rank[here] = np.searchsorted(one, trees.threshold[here])
    return cuts, rank


def _rounded_down(thresholds: NDArray[Any]) -> NDArray[np.float32]:
    """Thresholds that decide the same for each number of float32."""
    with np.errstate(over="ignore"):
        near = thresholds.astype(np.float32)
        below = np.nextafter(near, np.float32(-np.inf))
    return np.where(near > thresholds, below, near).astype(np.float32)
