"""Modules of trees: strategies that find the leaf of each tree, and the ordered sum of the leaves.

GEMM, TreeTraversal and PerfectTreeTraversal are Algorithms 3 to 5 of Hummingbird, thesis section 5.4.1. Features are
gathered where the paper multiplies by a matrix of zeros and ones, for 0 times NaN is NaN.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

from udfs.compiling.torch._native_trees import NativeTrees
from udfs.compiling.torch._numbers import to_tensor
from udfs.compiling.torch._tree_layout import order_siblings

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from optimizer.compiling import Trees

__all__ = ["TreesModule"]


def _columns(trees: Trees) -> NDArray[np.int64]:
    return np.where(trees.missing_left | (not trees.missing), 0, trees.features) + trees.feature.astype(np.int64)


class _Leaves(torch.nn.Module):
    """Find the leaf of each row in each tree, as a place in the table of nodes.

    Where NaN may come, the table of rows is doubled: the first half has minus infinity for NaN, which goes left at any
    threshold; the second half keeps NaN, which compares as false and goes right. A node reads from the half that it
    wants, and a leaf from the first, so that nothing leaves it.
    """

    def __init__(self, trees: Trees) -> None:
        super().__init__()
        self.missing = trees.missing
        self.dtype = getattr(torch, trees.threshold.dtype.name)
        self.columns = _columns(trees)

    def read(self, x: torch.Tensor) -> torch.Tensor:
        """Return the rows as nodes read them."""
        x = x.to(self.dtype)
        return torch.cat([torch.where(torch.isnan(x), -torch.inf, x), x], dim=1) if self.missing else x

    def right(self, x: torch.Tensor, threshold: torch.Tensor) -> torch.Tensor:
        """Return whether a value goes to the right. A row with unexpected NaN stays in its leaf."""
        return torch.logical_not(x <= threshold) if self.missing else x > threshold


class _Traversal(_Leaves):
    """Algorithm 4: step down level by level. Siblings lie side by side, so that one table has both children.

    Trees are ordered by their depth: one that has ended is looked at no more.
    """

    root: torch.Tensor
    feature: torch.Tensor
    threshold: torch.Tensor
    child: torch.Tensor
    node: torch.Tensor
    tree: torch.Tensor

    def __init__(self, trees: Trees) -> None:
        super().__init__(trees)
        depths = trees.depths()
        by_depth = np.argsort(-depths, kind="stable")
        order = order_siblings(trees, trees.root[by_depth].astype(np.int64))
        place = np.empty(len(order), np.int64)
        place[order] = np.arange(len(order))
        self.counts = [int((depths > level).sum()) for level in range(int(depths.max(initial=0)))]
        self.register_buffer("root", to_tensor(place[trees.root[by_depth]]))
        self.register_buffer("feature", to_tensor(self.columns[order]))
        self.register_buffer("threshold", to_tensor(trees.threshold[order]))
        self.register_buffer("child", to_tensor(place[trees.left[order]]))
        self.register_buffer("node", to_tensor(order))
        self.register_buffer("tree", to_tensor(np.argsort(by_depth, kind="stable")))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the leaves of shape (rows, trees)."""
        x = self.read(x)
        at = self.root.expand(x.shape[0], -1)
        ended: list[torch.Tensor] = []
        for count in self.counts:
            if count < at.shape[1]:
                ended.append(at[:, count:])
                at = at[:, :count]
            value = x.gather(1, self.feature[at])
            at = self.child[at] + self.right(value, self.threshold[at])
        return self.node[torch.cat([at, *reversed(ended)], dim=1).index_select(1, self.tree)]


class _Perfect(_Leaves):
    """Algorithm 5: trees filled up to one depth, whose children need no table. Levels lie one after the other."""

    node: torch.Tensor
    tree: torch.Tensor

    def __init__(self, trees: Trees) -> None:
        super().__init__(trees)
        self.depth = int(trees.depths().max(initial=0))
        level = trees.root.astype(np.int64)[:, None]
        for number in range(self.depth):
            self.register_buffer(f"feature_{number}", to_tensor(self.columns[level].reshape(-1)))
            self.register_buffer(f"threshold_{number}", to_tensor(trees.threshold[level].reshape(-1)))
            level = np.stack([trees.left[level], trees.right[level]], axis=-1).reshape(len(level), -1).astype(np.int64)
        self.register_buffer("node", to_tensor(level.reshape(-1)))
        self.register_buffer("tree", torch.arange(len(trees.root)))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the leaves of shape (rows, trees)."""
        x = self.read(x)
        at = torch.zeros((), dtype=torch.int64).expand(x.shape[0], len(self.tree))
        for number in range(self.depth):
            slot = at + self.tree * 2**number
            value = x.gather(1, getattr(self, f"feature_{number}")[slot])
            at = at * 2 + self.right(value, getattr(self, f"threshold_{number}")[slot])
        return self.node[at + self.tree * 2**self.depth]


class _Gemm(_Leaves):
    """Algorithm 3: decide all splits at once; the one leaf whose path they spell is where the row ends."""

    feature: torch.Tensor
    threshold: torch.Tensor
    turns: torch.Tensor
    lefts: torch.Tensor
    node: torch.Tensor
    first: torch.Tensor

    def __init__(self, trees: Trees) -> None:
        super().__init__(trees)
        paths = [_paths(trees, int(root)) for root in trees.root]
        splits = max((len(inner) for inner, _, _ in paths), default=0)
        leaves = max((len(ends) for _, ends, _ in paths), default=1)
        shape = (len(paths), splits)
        feature, threshold = np.zeros(shape, np.int64), np.full(shape, np.inf, trees.threshold.dtype)
        # No path has so many left turns: a leaf that only fills up is never chosen.
        turns, lefts = np.zeros((*shape, leaves), np.float32), np.full((len(paths), 1, leaves), splits + 1, np.float32)
        node = np.zeros((len(paths), leaves), np.int64)
        for number, (inner, ends, path) in enumerate(paths):
            feature[number, : len(inner)], threshold[number, : len(inner)] = self.columns[inner], trees.threshold[inner]
            turns[number, : len(inner), : len(ends)] = path
            lefts[number, 0, : len(ends)] = (path > 0).sum(axis=0)
            node[number, : len(ends)] = ends
        self.splits = splits
        for name, array in (
            ("feature", feature.reshape(-1)),
            ("threshold", threshold),
            ("turns", turns),
            ("lefts", lefts),
        ):
            self.register_buffer(name, to_tensor(array))
        self.register_buffer("node", to_tensor(node.reshape(-1)))
        self.register_buffer("first", torch.arange(len(paths)) * leaves)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the leaves of shape (rows, trees)."""
        x = self.read(x)
        value = x.index_select(1, self.feature).view(x.shape[0], len(self.first), self.splits)
        left = torch.logical_not(self.right(value, self.threshold)).to(torch.float32)
        chosen = (left.transpose(0, 1) @ self.turns) == self.lefts
        return self.node[chosen.to(torch.int8).argmax(dim=2).transpose(0, 1) + self.first]


_STRATEGIES: Mapping[str, Callable[[Trees], torch.nn.Module]] = {
    "gemm": _Gemm,
    "traversal": _Traversal,
    "perfect": _Perfect,
}


class TreesModule(torch.nn.Module):
    """Trees, by a strategy: the sum of the leaves, one tree after the other.

    ``cumsum`` adds in the order of the trees, where ``sum`` adds in pairs: only the first gives the library's bits.
    Operators that follow trees call ``leaves`` once for themselves and for ``total``.

    Parameters
    ----------
    strategy : str
        One of ``optimizer.compiling.STRATEGIES``.

    Raises
    ------
    RuntimeError
        The strategy is ``"native"``, and this node cannot build native code.
    """

    rounds: torch.Tensor
    value: torch.Tensor
    base: torch.Tensor
    column: torch.Tensor

    def __init__(self, trees: Trees, strategy: str) -> None:
        super().__init__()
        self.native = NativeTrees(trees, _columns(trees)) if strategy == "native" else None
        self.leaves = self.native.leaves if self.native else _STRATEGIES[strategy](trees)
        self.divisor = trees.divisor
        rounds, columns = _rounds(trees), len(trees.base)
        self.shape = (len(rounds), columns)
        self.register_buffer("rounds", to_tensor(rounds.reshape(-1)))
        nothing = np.zeros((1, trees.value.shape[1]), trees.value.dtype)
        self.register_buffer("value", to_tensor(np.concatenate([trees.value, nothing])))
        self.register_buffer("base", to_tensor(trees.base).reshape(1, 1, columns))
        self.filled = bool((rounds == len(trees.root)).any())
        self.single = trees.value.dtype == np.float32
        self.register_buffer("column", torch.arange(columns).repeat(len(rounds)))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the sums of shape (rows, columns), in the type of the values."""
        return self.native.sums(x) if self.native else self.total(self.leaves(x))

    def total(self, leaf: torch.Tensor) -> torch.Tensor:
        """Return the sums of leaves of shape (rows, trees), given as places in the node table."""
        if self.filled:
            leaf = torch.nn.functional.pad(leaf, (0, 1), value=len(self.value) - 1)
        values = self.value[leaf.index_select(1, self.rounds)].reshape(leaf.shape[0], *self.shape)
        if self.single:
            # cumsum keeps float32 sums in float64, and rounds what it gives; this one rounds each sum.
            flat = values.reshape(leaf.shape[0], len(self.column))  # of no row, -1 would not be known
            total = self.base[0].repeat(leaf.shape[0], 1).scatter_add(1, self.column.expand(leaf.shape[0], -1), flat)
        else:
            total = torch.cat([self.base.expand(leaf.shape[0], -1, -1), values], dim=1).cumsum(dim=1)[:, -1]
        return total if self.divisor == 1 else total / self.divisor


def _rounds(trees: Trees) -> NDArray[np.int64]:
    """Return trees by round and column of the result; the number of trees stands for none."""
    if trees.value.shape[1] > 1 or len(trees.base) == 1:
        return np.arange(len(trees.root), dtype=np.int64)[:, None]
    members_of = [np.flatnonzero(trees.target == column) for column in range(len(trees.base))]
    grid = np.full((max(len(column) for column in members_of), len(members_of)), len(trees.root), np.int64)
    for column, members in enumerate(members_of):
        grid[: len(members), column] = members
    return grid


def _paths(trees: Trees, root: int) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float32]]:
    """Return splits and leaves of a tree, and for each pair 1 if the leaf is below on the left, -1 on the right."""
    inner: list[int] = []
    ends: list[int] = []
    turns: list[dict[int, float]] = []
    stack: list[tuple[int, dict[int, float]]] = [(root, {})]
    while stack:
        at, path = stack.pop()
        if trees.left[at] == at:
            ends.append(at)
            turns.append(path)
            continue
        place = len(inner)
        inner.append(at)
        stack.append((int(trees.right[at]), {**path, place: -1.0}))
        stack.append((int(trees.left[at]), {**path, place: 1.0}))
    table = np.zeros((len(inner), len(ends)), np.float32)
    for column, path in enumerate(turns):
        table[list(path), column] = list(path.values())
    return np.asarray(inner, np.int64), np.asarray(ends, np.int64), table
