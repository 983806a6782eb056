"""A program with all that it needs to run: readers of columns, and an engine for each type of table."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from optimizer.compiling import rewrite
from udfs.compiling._reading import ColumnReader

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import pyarrow as pa
    from numpy.typing import NDArray

    from optimizer.compiling import Program, SparseRows
    from udfs.compiling._reading import Tables
    from udfs.compiling.torch import Answer, Engine

__all__ = ["Scorer"]


class Scorer:
    """Run a program on columns, or on tables, rewritten for the type that they turn out to have.

    Parameters
    ----------
    program : Program
    tree_strategy : str
        As of :class:`udfs.compiling.torch.Engine`.
    rewrites : bool
        Whether it is rewritten. Default true.
    """

    def __init__(self, program: Program, tree_strategy: str = "auto", *, rewrites: bool = True) -> None:
        self.program = program
        self._rewrites, self._strategy = rewrites, tree_strategy
        # A type is rewritten, and an engine made, once.
        self._program: Callable[[str], Program] = lru_cache(maxsize=None)(self._rewritten)
        self._engine: Callable[[str], Engine] = lru_cache(maxsize=None)(self._made)
        self._reader = ColumnReader(program, self._program)

    def read(self, columns: Sequence[NDArray[Any] | pa.Array]) -> Tables:
        """Read columns, as :meth:`ColumnReader.read` does."""
        return self._reader.read(columns)

    def run(self, table: NDArray[Any], given: Sequence[NDArray[Any] | SparseRows] = ()) -> Answer:
        """Run on a table of float32 or float64, as :meth:`udfs.compiling.torch.Engine.run` does."""
        return self._engine(table.dtype.name).run(table, given)

    def _rewritten(self, dtype: str) -> Program:
        return rewrite(self.program, dtype).program if self._rewrites else self.program

    def _made(self, dtype: str) -> Engine:
        from udfs.compiling.torch import Engine  # noqa: PLC0415 - imports torch

        return Engine(self._program(dtype), self._strategy)
