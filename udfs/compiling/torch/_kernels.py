"""Kernels of one program, in the two sizes that tables are cut into."""

from __future__ import annotations

import logging
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from optimizer.compiling import UnsupportedOperatorError
from udfs.compiling.torch._ahead import Busy, Kernel, build, kept

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from optimizer.compiling import Program

__all__ = ["LARGE", "SMALL", "Kernels"]

_LOGGER = logging.getLogger(__name__)

SMALL = 16
"""Rows of the small kernel: one vector of numbers."""
LARGE = 1024
"""Rows of the large kernel: the numbers of a chunk stay in the second-level cache."""
_FEW = 16 * SMALL

Part = tuple[dict[str, torch.Tensor], dict[str, torch.Tensor]]


class Kernels:
    """The kernels of a program for one type of numbers, built or found when the first table of a size comes.

    Parameters
    ----------
    program : Program
    strategies : mapping of str to str
    threads : int
        Chunks that run beside each other.
    """

    def __init__(self, program: Program, strategies: Mapping[str, str], threads: int) -> None:
        self._program, self._strategies, self._threads = program, strategies, threads
        self._open: dict[tuple[int, torch.dtype], list[Kernel]] = {}
        self._failed = False
        self._pool = ThreadPoolExecutor(threads) if threads > 1 else None

    def ready(self, rows: int, dtype: np.dtype[Any], *, may_build: bool) -> bool:
        """Whether tables of so many rows can run, and make it so where that is allowed."""
        if self._failed:
            return False
        return all(self._ready(size, dtype, may_build=may_build) for size in {size for _, size in _cut(rows)})

    def _ready(self, size: int, dtype: np.dtype[Any], *, may_build: bool) -> bool:
        key = (size, _torch_type(dtype))
        if key in self._open:
            return True
        try:
            first = kept(self._program, self._strategies, *key)
            if first is None and may_build:
                first = build(self._program, self._strategies, *key)
        except Busy:
            return False
        except UnsupportedOperatorError as error:
            self._failed = True
            _LOGGER.warning("%s: the program runs eagerly", error)
            return False
        if first is None:
            return False
        # A kernel has buffers of its own: one for each thread.
        others = (kept(self._program, self._strategies, *key) for _ in range(self._threads - 1))
        self._open[key] = [first, *(kernel for kernel in others if kernel is not None)]
        return True

    def run(self, table: NDArray[Any]) -> list[Part]:
        """Run on a table for which :meth:`ready` said yes."""
        spans = _cut(len(table))
        if self._pool is None or len(spans) == 1:
            return [self._span(table, start, size, 0) for start, size in spans]
        threads = min(self._threads, *(len(kernels) for kernels in self._open.values()))

        def share(own: int) -> list[Part]:
            return [self._span(table, start, size, own) for start, size in spans[own::threads]]

        parts: list[Part | None] = [None] * len(spans)
        for own, done in enumerate(self._pool.map(share, range(threads))):
            parts[own::threads] = done
        return [part for part in parts if part is not None]

    def _span(self, table: NDArray[Any], start: int, size: int, own: int) -> Part:
        rows = table[start : start + size]
        # Columns side by side; rows that fill the chunk up are zeros, and are cut off.
        turned = (np.empty if len(rows) == size else np.zeros)((table.shape[1], size), table.dtype)
        turned[:, : len(rows)] = rows.T
        outputs, bad = self._open[size, _torch_type(table.dtype)][own](torch.from_numpy(turned).t())
        if len(rows) == size:
            return outputs, bad
        count = len(rows)
        return {name: one[:count] for name, one in outputs.items()}, {name: one[:count] for name, one in bad.items()}


def _cut(rows: int) -> list[tuple[int, int]]:
    """Starts and sizes of chunks."""
    large = 0 if rows <= _FEW else rows // LARGE
    rest = rows - large * LARGE
    spans = [(number * LARGE, LARGE) for number in range(large)]
    if rest > _FEW:
        return [*spans, (large * LARGE, LARGE)]
    return spans + [(start, SMALL) for start in range(large * LARGE, rows, SMALL)]


def _torch_type(dtype: np.dtype[Any]) -> torch.dtype:
    return torch.float32 if dtype == np.float32 else torch.float64
