"""Trees run by machine code that serves all ensembles and is built once per node."""

from __future__ import annotations

import ctypes
from threading import local
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch

from optimizer.compiling import WALKED_ROWS
from udfs.compiling.torch._native_code import native_code
from udfs.compiling.torch._threads import thread_pool, tree_threads
from udfs.compiling.torch._tree_layout import (
    LAST_RANK,
    cut_top,
    measure_heights,
    order_siblings,
    rank_thresholds,
    round_down,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from optimizer.compiling import Trees

__all__ = ["NativeTrees"]

_EVERY_BIT = 2**32 - 1
# Of a block: as many as a second-level cache holds, and rows by the vectors that one pass decides.
_NUMBERS, _LEAST = 2**16, 64


class _Forest(ctypes.Structure):
    """Structure ``Forest`` of trees.cpp, field by field."""

    _fields_: ClassVar[list[tuple[str, Any]]] = [
        *((name, ctypes.c_int64) for name in ("trees", "columns", "values", "features", "block")),
        *(
            (name, ctypes.c_void_p)
            for name in ("top", "feature", "limit", "mask", "first_exit", "exit", "steps", "below", "node", "target")
        ),
        ("used", ctypes.c_void_p),
        ("used_count", ctypes.c_int64),
        *((name, ctypes.c_void_p) for name in ("cuts", "first_cut", "value", "base")),
        ("divisor", ctypes.c_double),
        ("ranked", ctypes.c_int32),
    ]


# Rows times trees of a thread: with less, another thread takes longer to begin than it saves.
_WORTH = 2**18


class NativeTrees:
    """Leaves and sums of trees, by the code of trees.cpp, which releases the interpreter's lock.

    Thresholds of float64 are compared as ranks: the rank of a number among all thresholds of its column is at most that
    of a threshold exactly if the number is. Numbers of float32 are compared with thresholds rounded down. Leaves are
    added in the order of the trees.

    Parameters
    ----------
    columns : int64 array of shape (nodes,)
        Column of the table that each node reads. The table is doubled where NaN may come.
    """

    def __init__(self, trees: Trees, columns: NDArray[np.int64]) -> None:
        self._wide = trees.threshold.dtype == np.float64
        self._trees, self._columns = len(trees.root), len(trees.base)
        self._value_type = torch.float32 if trees.value.dtype == np.float32 else torch.float64
        self._code = native_code()
        self._read = trees.features * (2 if trees.missing else 1)
        self._block = min(max(_NUMBERS // max(self._read, 1) // _LEAST, 1) * _LEAST, self._code.most)
        height = measure_heights(trees)
        tops = [cut_top(trees, int(root), height) for root in trees.root]
        order = order_siblings(trees, np.concatenate([top.exits for top in tops] or [[]]).astype(np.int64))
        place = np.zeros(len(trees.left), np.int64)
        place[order] = np.arange(len(order))
        cuts, ranks = rank_thresholds(trees, columns)
        bits = round_down(trees.threshold).view(np.int32)
        splits = np.array([at for top in tops for at, _, _ in top.splits], np.int64)
        strikes = [_EVERY_BIT & ~((1 << last) - (1 << first)) for top in tops for _, first, last in top.splits]
        exits = np.array([at for top in tops for at in top.exits], np.int64)
        inner = trees.left != np.arange(len(trees.left))
        used = np.unique(columns[inner])
        if len(used) and used[0] >= trees.features:
            used = np.concatenate([[0], used])
        # A leaf reads a column of the first half, which has no NaN, so that nothing leaves it.
        reads = np.where(inner, columns, used[0] if len(used) else 0)
        self._common = {
            "top": np.cumsum([0, *(len(top.splits) for top in tops)]),
            "feature": columns[splits],
            "mask": np.array(strikes, np.uint32).view(np.int32),
            "first_exit": np.cumsum([0, *(len(top.exits) for top in tops)]),
            "exit": place[exits],
            "steps": np.array([int(height[top.exits].max()) for top in tops], np.int64),
            "node": order,
            "target": trees.target,
            "used": used,
        }
        self._common = {name: np.ascontiguousarray(array, np.int32) for name, array in self._common.items()}
        used_cuts = [cuts[column] for column in used]
        self._common |= {
            "cuts": np.concatenate([*used_cuts, np.empty(0)]),
            "first_cut": np.cumsum([0, *map(len, used_cuts)]).astype(np.int64),
            "value": np.ascontiguousarray(trees.value[order]),
            "base": np.ascontiguousarray(trees.base),
        }
        self._sizes = {
            "trees": self._trees,
            "columns": self._columns,
            "values": trees.value.shape[1],
            "features": trees.features,
            "block": self._block,
            "divisor": trees.divisor,
            "used_count": len(used),
        }
        compared = {False: bits, True: np.where(inner, ranks, LAST_RANK)} if self._wide else {False: bits}
        self._source = (trees, reads, compared)
        self._limits = {
            ranked: (np.ascontiguousarray(limits[splits], np.int32), _places(trees, order, reads, limits))
            for ranked, limits in compared.items()
        }
        self._forests = {
            ranked: _forest(self._sizes, {**self._common, "limit": limit, "below": below}, ranked=ranked)
            for ranked, (limit, below) in self._limits.items()
        }
        self._walks: dict[bool, tuple[_Forest, dict[str, NDArray[Any]]]] = {}
        self._own = local()

    def few(self, x: NDArray[Any]) -> NDArray[Any]:
        """Return the sums of at most :data:`optimizer.compiling.WALKED_ROWS` rows, equal to those of :meth:`sums`."""
        # A dictionary of this thread alone: another one may ask at the same time.
        scratch: dict[Any, tuple[NDArray[Any], NDArray[Any], Callable[[int], None]]] = self._own.__dict__
        if x.dtype not in scratch:
            scratch[x.dtype] = self._scratch(x.dtype)
        rows = len(x)
        numbers, sums, call = scratch[x.dtype]
        np.copyto(numbers[:rows], x)
        call(rows)
        answer: NDArray[Any] = sums[:rows].copy()
        return answer

    def _scratch(self, dtype: np.dtype[Any]) -> tuple[NDArray[Any], NDArray[Any], Callable[[int], None]]:
        """Allocate tables of this thread for rows of one type, since a new address takes longer to find than a tree."""
        if dtype not in {np.dtype(np.float32), np.dtype(np.float64)}:
            dtype = np.dtype(np.float64 if self._wide else np.float32)
        double = dtype == np.float64
        forest = self._walked(ranked=double and self._wide)
        kinds = int(double) + 2 * int(self._value_type == torch.float64)
        numbers = np.zeros((WALKED_ROWS, forest.features), dtype)
        sums = np.zeros((WALKED_ROWS, self._columns), self._common["value"].dtype)
        table = np.zeros(self._read, np.int32)
        walk, place = self._code.walk, ctypes.addressof(forest)
        from_, by, to = numbers.ctypes.data, table.ctypes.data, sums.ctypes.data

        def call(rows: int, _held: tuple[object, ...] = (numbers, table, sums, forest)) -> None:
            walk(place, from_, rows, kinds, by, to)

        return numbers, sums, call

    def _walked(self, *, ranked: bool) -> _Forest:
        """Return all nodes in the order in which rows step down, built for the first few rows."""
        if ranked not in self._walks:
            trees, reads, compared = self._source
            order = order_siblings(trees, trees.root.astype(np.int64))
            arrays = {
                **self._common,
                "exit": np.arange(self._trees, dtype=np.int32),
                "below": _places(trees, order, reads, compared[ranked]),
                "value": np.ascontiguousarray(trees.value[order]),
            }
            self._walks[ranked] = (_forest({**self._sizes, "block": 1}, arrays, ranked=ranked), arrays)
        return self._walks[ranked][0]

    def leaves(self, x: torch.Tensor) -> torch.Tensor:
        """Return the leaves as places in the node table, int64 of shape (rows, trees)."""
        places = torch.empty((x.shape[0], self._trees), dtype=torch.int64)
        self._run(x, places, None)
        return places

    def sums(self, x: torch.Tensor) -> torch.Tensor:
        """Return the sums of shape (rows, columns), in the type of the values."""
        added = torch.empty((x.shape[0], self._columns), dtype=self._value_type)
        self._run(x, None, added)
        return added

    def _run(self, x: torch.Tensor, leaves: torch.Tensor | None, sums: torch.Tensor | None) -> None:
        if x.dtype not in {torch.float32, torch.float64}:
            x = x.to(torch.float64 if self._wide else torch.float32)
        double = x.dtype == torch.float64
        forest = self._forests[double and self._wide]
        kinds = int(double) + 2 * int(self._value_type == torch.float64)
        rows, block, place = x.shape[0], self._block, ctypes.addressof(forest)
        threads = min(tree_threads(), -(-rows // block), rows * self._trees // _WORTH)

        def part(start: int, stop: int) -> None:
            table = np.empty(self._read * block, np.int32)
            self._code.run(
                place,
                x.data_ptr() + start * x.stride(0) * x.element_size(),
                stop - start,
                x.stride(0),
                x.stride(1),
                kinds,
                table.ctypes.data,
                None if leaves is None else leaves.data_ptr() + start * self._trees * 8,
                None if sums is None else sums.data_ptr() + start * self._columns * sums.element_size(),
            )

        if threads <= 1:
            part(0, rows)
            return
        share = -(-rows // block // threads) * block
        spans = [(start, min(start + share, rows)) for start in range(0, rows, share)]
        list(thread_pool(threads, "trees").map(part, *zip(*spans, strict=True)))


def _forest(sizes: Mapping[str, float], arrays: Mapping[str, NDArray[Any]], *, ranked: bool) -> _Forest:
    return _Forest(**sizes, **{name: array.ctypes.data for name, array in arrays.items()}, ranked=int(ranked))


def _places(
    trees: Trees, order: NDArray[np.int64], reads: NDArray[np.int64], limits: NDArray[np.int32]
) -> NDArray[np.int32]:
    """Return column, limit and left child of each node, siblings side by side, as int32 of shape (nodes, 3)."""
    place = np.zeros(len(trees.left), np.int64)
    place[order] = np.arange(len(order))
    return np.stack([reads[order], limits[order], place[trees.left[order]]], axis=1).astype(np.int32)
