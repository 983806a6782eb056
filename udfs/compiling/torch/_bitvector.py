"""Trees by bit vectors: each split strikes out the leaves that a row cannot reach any more.

Of QuickScorer (Lucchese et al., SIGIR 2015): the splits of a tree are decided in any order, and each one that sends a
row to the right takes the leaves on its left out of a word of 32 bits. The lowest bit that stays is the leaf. There are
no jumps, so a compiler makes vectors of rows of it. A tree with more leaves than bits is cut: bit vectors decide its
top, and what hangs below is walked level by level.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch

from udfs.compiling.torch._layout import laid_out
from udfs.compiling.torch._numbers import tensor_of
from udfs.compiling.torch._tops import BITS, LAST_RANK, below_tops, heights, ranks_of, rounded_down, top_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from optimizer.compiling import Trees
    from udfs.compiling.torch._tops import Top

__all__ = ["BitVectors"]

# Trees are bucketed by the splits of their tops: a bucket is a loop of its own, which takes time to compile.
_BUCKETS = (8, 16, 24, BITS)
_FLOAT_EXPONENT, _EXPONENT_MASK, _EXPONENT_BIAS = 23, 255, 127


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
        height = heights(trees)
        tops = [top_of(trees, int(root), height) for root in trees.root]
        bucket = [min(size for size in _BUCKETS if len(top.splits) <= size) for top in tops]
        below = [int(height[top.exits].max()) for top in tops]
        # Trees of few splits that are cut (a chain) are walked: they may not lengthen the walks of the others.
        keys = sorted({(size, steps > 0) for size, steps in zip(bucket, below, strict=True)})
        order = below_tops(trees, tops)
        place = np.zeros(len(trees.left), np.int64)
        place[order] = np.arange(len(order))
        cuts, ranks = ranks_of(trees, columns)
        table = _Nodes(columns.astype(np.int32), rounded_down(trees.threshold), ranks)
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
            "cuts": _side_by_side(cuts),
            "node": order.astype(np.int32),
            "walk_feature": table.column[order],
            "walk_child": place[trees.left[order]].astype(np.int32),
            "walk_threshold": table.threshold[order],
            "walk_rank": table.rank[order],
        }.items():
            self.register_buffer(name, tensor_of(array))

    def _enter(self, number: int, table: _Nodes, tops: list[Top], place: NDArray[np.int64] | None) -> None:
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
            "rank": np.where(node < 0, LAST_RANK, table.rank[node]).astype(np.int32),
            "mask": (mask & (2**BITS - 1)).astype(np.uint32).view(np.int32),
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


def _side_by_side(cuts: list[NDArray[np.float64]]) -> NDArray[np.float64]:
    """A row a column, filled up with infinities."""
    table = np.full((len(cuts), max(map(len, cuts), default=0)), np.inf)
    for column, own in enumerate(cuts):
        table[column, : len(own)] = own
    return table
