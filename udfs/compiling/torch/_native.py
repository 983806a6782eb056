"""Trees by one piece of machine code for all ensembles, which a node builds once, in seconds."""

from __future__ import annotations

import ctypes
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch

from udfs.compiling.torch._native_code import native_code
from udfs.compiling.torch._tops import LAST_RANK, below_tops, heights, ranks_of, rounded_down, top_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from optimizer.compiling import Trees

__all__ = ["NativeTrees"]

_EVERY_BIT = 2**32 - 1
# Of a block: as many as a second-level cache holds, and rows by the vectors that one pass decides.
_NUMBERS, _LEAST = 2**16, 64


class _Forest(ctypes.Structure):
    """As ``Forest`` of trees.cpp, field by field."""

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


class NativeTrees:
    """Leaves and sums of trees, by the code of trees.cpp. It lets go of the interpreter's lock, and no tracer sees in.

    Numbers are compared as :class:`BitVectors` compares them, and leaves are added in the order of the trees.

    Parameters
    ----------
    trees : Trees
    columns : int64 array of shape (nodes,)
        Which column of the table a node reads; the table is doubled where NaN may come.
    """

    def __init__(self, trees: Trees, columns: NDArray[np.int64]) -> None:
        self._wide = trees.threshold.dtype == np.float64
        self._trees, self._columns = len(trees.root), len(trees.base)
        self._value_type = torch.float32 if trees.value.dtype == np.float32 else torch.float64
        self._code = native_code()
        self._read = trees.features * (2 if trees.missing else 1)
        self._block = min(max(_NUMBERS // max(self._read, 1) // _LEAST, 1) * _LEAST, self._code.most)
        height = heights(trees)
        tops = [top_of(trees, int(root), height) for root in trees.root]
        order = below_tops(trees, tops)
        place = np.zeros(len(trees.left), np.int64)
        place[order] = np.arange(len(order))
        cuts, ranks = ranks_of(trees, columns)
        bits = rounded_down(trees.threshold).view(np.int32)
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
        self._common = {name: np.ascontiguousarray(one, np.int32) for name, one in self._common.items()}
        own = [cuts[column] for column in used]
        self._common |= {
            "cuts": np.concatenate([*own, np.empty(0)]),
            "first_cut": np.cumsum([0, *map(len, own)]).astype(np.int64),
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
        self._limits = {
            ranked: (
                np.ascontiguousarray(limits[splits], np.int32),
                np.stack([reads[order], limits[order], place[trees.left[order]]], axis=1).astype(np.int32),
            )
            for ranked, limits in ((False, bits), (True, np.where(inner, ranks, LAST_RANK)))
            if self._wide or not ranked
        }
        self._forests = {ranked: self._forest(ranked) for ranked in self._limits}

    def _forest(self, ranked: bool) -> _Forest:
        limit, below = self._limits[ranked]
        arrays = {**self._common, "limit": limit, "below": below}
        return _Forest(**self._sizes, **{name: array.ctypes.data for name, array in arrays.items()}, ranked=int(ranked))

    def leaves(self, x: torch.Tensor) -> torch.Tensor:
        """Places in the table of nodes, int64 of shape (rows, trees)."""
        found = torch.empty((x.shape[0], self._trees), dtype=torch.int64)
        self._run(x, found, None)
        return found

    def sums(self, x: torch.Tensor) -> torch.Tensor:
        """Sums of shape (rows, columns), in the type of the values."""
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
        threads = min(torch.get_num_threads(), -(-rows // block))

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
        list(_pool(threads).map(part, *zip(*spans, strict=True)))


@cache
def _pool(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads, thread_name_prefix="trees")
