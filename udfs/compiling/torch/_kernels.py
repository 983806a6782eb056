"""Kernels of one program, in the two sizes that tables are cut into."""

from __future__ import annotations

import logging
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from optimizer.compiling import UnsupportedOperatorError
from udfs.compiling.torch._ahead import Busy, build, kept

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from optimizer.compiling import Program
    from udfs.compiling.torch._ahead import Kernel

__all__ = ["FEW", "LARGE", "SMALL", "Kernels", "Part"]

_LOGGER = logging.getLogger(__name__)

SMALL = 16
"""Rows of the small kernel: one vector of numbers."""
LARGE = 1024
"""Rows of the large kernel: the numbers of a chunk stay in the second-level cache."""
FEW = 16 * SMALL
"""Rows up to which a table runs in small kernels."""

Part = tuple[dict[str, torch.Tensor], dict[str, torch.Tensor]]
_Key = tuple[int, torch.dtype]


class Kernels:
    """The kernels of a program, built or found when the first table of a size and type comes.

    Parameters
    ----------
    program : Program
    strategies : mapping of str to str
    threads : int
        Chunks that run beside each other.
    """

    def __init__(self, program: Program, strategies: Mapping[str, str], threads: int) -> None:
        self._program, self._strategies, self._threads = program, strategies, threads
        self._open: dict[_Key, list[Kernel]] = {}
        self._looked: set[_Key] = set()
        self._failed = False
        self._pool = ThreadPoolExecutor(threads) if threads > 1 else None
        self.build_s = 0.0
        """Seconds that building took of what is open."""

    def has(self, rows: int, dtype: np.dtype[Any]) -> bool:
        """Whether a kernel for tables of so many rows is open, or known to gain nothing."""
        return _key(rows, dtype) in self._open or self._failed

    def ready(self, table: NDArray[Any], *, may_build: bool, must_gain: bool) -> bool:
        """Whether a table can run, and make it so where that is allowed.

        Parameters
        ----------
        table : array of shape (rows, columns)
        may_build : bool
        must_gain : bool
            Whether a kernel that was no faster than the eager program is left aside.
        """
        if self._failed:
            return False
        key = _key(len(table), table.dtype)
        if key not in self._open and (may_build or key not in self._looked):
            self._find(key, table, may_build=may_build, must_gain=must_gain)
        return bool(self._open.get(key))

    def _find(self, key: _Key, table: NDArray[Any], *, may_build: bool, must_gain: bool) -> None:
        self._looked.add(key)
        try:
            found = kept(self._program, self._strategies, *key)
            if found is None and may_build:
                found = build(self._program, self._strategies, *key, table)
        except Busy:
            return
        except UnsupportedOperatorError as error:
            self._failed = True
            _LOGGER.warning("%s: the program runs eagerly", error)
            return
        if found is None:
            return
        self.build_s += found.build_s
        if must_gain and not found.gains:
            self._open[key] = []
            return
        # A kernel has buffers of its own: one for each thread.
        others = (kept(self._program, self._strategies, *key) for _ in range(self._threads - 1))
        self._open[key] = [found.kernel, *(other.kernel for other in others if other is not None)]

    def run(self, table: NDArray[Any]) -> list[Part]:
        """Run on a table for which :meth:`ready` said yes."""
        spans = _cut(len(table), small=bool(self._open.get((SMALL, _torch_type(table.dtype)))))
        if self._pool is None or len(spans) == 1:
            return [self._span(table, start, size, 0) for start, size in spans]
        threads = min(self._threads, *(len(self._open[size, _torch_type(table.dtype)]) for _, size in spans))

        def share(own: int) -> list[Part]:
            with torch.inference_mode():
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


def _cut(rows: int, *, small: bool) -> list[tuple[int, int]]:
    """Starts and sizes of chunks; `small` says whether a rest may be cut into small ones."""
    large = 0 if rows <= FEW else rows // LARGE
    spans = [(number * LARGE, LARGE) for number in range(large)]
    rest = rows - large * LARGE
    if rest > FEW or (large and rest and not small):
        return [*spans, (large * LARGE, LARGE)]
    return spans + [(start, SMALL) for start in range(large * LARGE, rows, SMALL)]


def _key(rows: int, dtype: np.dtype[Any]) -> _Key:
    return SMALL if rows <= FEW else LARGE, _torch_type(dtype)


def _torch_type(dtype: np.dtype[Any]) -> torch.dtype:
    return torch.float32 if dtype == np.float32 else torch.float64
