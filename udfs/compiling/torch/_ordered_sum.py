"""The sum of leaves where it is compiled: one loop over the trees, whose numbers stay in registers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

from udfs.compiling.torch._layout import laid_out
from udfs.compiling.torch._numbers import tensor_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from optimizer.compiling import Trees

__all__ = ["OrderedSum"]


class OrderedSum(torch.nn.Module):
    """Add up leaves in the order of the trees, the base first.

    Inductor makes a plain loop of a sum over the leading dimension, with rows side by side in a vector: it adds as
    the library does. The base is added to the leaves of the first trees beforehand, which is the first addition.

    Parameters
    ----------
    trees : Trees
    rounds : int64 array of shape (rounds, columns)
        Trees by their turn and column; the number of trees for none.
    """

    order: torch.Tensor
    value: torch.Tensor
    rest: torch.Tensor

    def __init__(self, trees: Trees, rounds: NDArray[np.int64]) -> None:
        super().__init__()
        self.divisor, self.columns, self.count = trees.divisor, len(trees.base), len(rounds)
        self.wide = trees.value.shape[1] > 1 or self.columns == 1
        flat = rounds.reshape(-1)
        value = np.concatenate([trees.value, np.zeros((1, trees.value.shape[1]), trees.value.dtype)])
        late = trees.base.copy()
        for column, tree in enumerate(rounds[0] if len(rounds) else ()):
            if tree < len(trees.root):
                nodes, own = _nodes(trees, int(tree)), slice(None) if self.wide else slice(column, column + 1)
                value[nodes] = trees.base[own] + value[nodes]
                late[own] = 0
        # A column that no tree adds to has its base and nothing else.
        self.late = bool(late.any())
        self.register_buffer("rest", tensor_of(late))
        self.filled = bool((flat == len(trees.root)).any())
        self.sorted = np.array_equal(flat, np.arange(len(trees.root)))
        self.nothing = len(value) - 1
        self.register_buffer("order", tensor_of(flat))
        self.register_buffer("value", tensor_of(value))

    def forward(self, leaf: torch.Tensor) -> torch.Tensor:
        """Sums of shape (rows, columns), of leaves of shape (rows, trees)."""
        leaf = leaf.t()
        if self.filled:
            leaf = torch.nn.functional.pad(leaf, (0, 0, 0, 1), value=self.nothing)
        if not self.sorted:
            leaf = leaf.index_select(0, self.order)
        # Laid out with rows side by side, or Inductor would make vectors of trees, and add those in another order.
        leaf = laid_out(leaf)
        values = torch.nn.functional.embedding(leaf, self.value)
        total = values.sum(0) if self.wide else values.squeeze(-1).view(self.count, self.columns, -1).sum(0).t()
        total = total + self.rest if self.late else total
        return total if self.divisor == 1 else total / self.divisor


def _nodes(trees: Trees, tree: int) -> NDArray[np.int64]:
    level = trees.root[tree : tree + 1].astype(np.int64)
    levels = []
    while len(level):
        levels.append(level)
        inner = level[trees.left[level] != level]
        level = np.concatenate([trees.left[inner], trees.right[inner]]).astype(np.int64)
    return np.concatenate(levels)
