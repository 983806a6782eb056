"""Scorer of a program: a column reader, and a plan and an engine for each type of table."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from optimizer.compiling import Rewritten, make_plan, rewrite
from udfs.compiling._answer import RowReason, explain_rows
from udfs.compiling._column_reader import ColumnReader

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    import pyarrow as pa
    from numpy.typing import NDArray

    from optimizer.compiling import Plan, Program, SparseRows
    from udfs.compiling._answer import Answer
    from udfs.compiling._column_reader import Tables
    from udfs.compiling.onnx import RuntimeEngine
    from udfs.compiling.torch import Engine

__all__ = ["Scorer"]


class Scorer:
    """Run a program on columns or tables, rewritten for their type.

    The whole program is rewritten once per type, and a run computes the part that its outputs need, so a check refuses
    rows of those outputs alone that it refused before.

    Parameters
    ----------
    tree_strategy, backend : str
        Options of :func:`optimizer.compiling.make_plan`. Default ``"auto"`` and ``"eager"``.
    threads : int, optional
        Threads that run a table. Default the number of torch, or of ONNX Runtime.
    rewrites : bool
        Whether the program is rewritten. Default true.
    """

    def __init__(
        self,
        program: Program,
        tree_strategy: str = "auto",
        *,
        backend: str = "eager",
        threads: int | None = None,
        rewrites: bool = True,
    ) -> None:
        self.program = program
        self._strategy, self._backend, self._threads = tree_strategy, backend, threads
        self._rewrites = rewrites
        # Each is built once per type.
        self.rewritten: Callable[[str], Rewritten] = lru_cache(maxsize=None)(self._rewritten)
        self.plan: Callable[[str], Plan] = lru_cache(maxsize=None)(self._planned)
        self.engine: Callable[[str], Engine | RuntimeEngine] = lru_cache(maxsize=None)(self._made)
        self._reader = ColumnReader(program, lambda dtype: self.rewritten(dtype).program)

    def read(self, columns: Sequence[NDArray[Any] | pa.Array]) -> Tables:
        """Read columns, as :meth:`ColumnReader.read` does."""
        return self._reader.read(columns)

    def run(
        self,
        table: NDArray[Any],
        host_tables: Sequence[NDArray[Any] | SparseRows] = (),
        outputs: Iterable[str] | None = None,
    ) -> Answer:
        """Run on a table of float32 or float64, as :meth:`udfs.compiling.torch.Engine.run` does."""
        # Comparing dtypes is faster than formatting `str(dtype)` on every call.
        kind = "float32" if table.dtype == np.float32 else "float64"
        return self.engine(kind).run(table, host_tables, outputs)

    def explain_rows(
        self,
        table: NDArray[Any],
        host_tables: Sequence[NDArray[Any] | SparseRows],
        outputs: Iterable[str],
        names: Sequence[object] | None = None,
    ) -> list[RowReason]:
        """Return the reason why each of some refused rows is refused, and the columns that it is refused for.

        Parameters
        ----------
        table, host_tables, outputs
            Refused rows, and parameters of :meth:`run`.
        names : sequence, optional
            Names of the columns. Default those of the program, or their places.
        """
        outputs = tuple(outputs)
        kind = "float32" if table.dtype == np.float32 else "float64"
        engine = self.engine(kind)
        if not hasattr(engine, "refusals"):  # ONNX Runtime marks rows alone
            text = " or ".join(self.run(table, host_tables, outputs).reasons)
            return [RowReason(text, ())] * len(table)
        refusals = engine.refusals(table, host_tables, outputs)
        return explain_rows(refusals, names or self.program.columns or range(self.program.width), len(table))

    def _rewritten(self, dtype: str) -> Rewritten:
        return rewrite(self.program, dtype) if self._rewrites else Rewritten(self.program, (), dtype)

    def _planned(self, dtype: str) -> Plan:
        rewritten = self.rewritten(dtype)
        return make_plan(
            rewritten.program,
            tree_strategy=self._strategy,
            backend=self._backend,
            rewrites=[f"for {dtype}: {change.explain()}" for change in rewritten.applied],
        )

    def _made(self, dtype: str) -> Engine | RuntimeEngine:
        if self._backend == "onnxruntime":
            from udfs.compiling.onnx import RuntimeEngine  # imports onnx

            return RuntimeEngine(self.rewritten(dtype).program, self.plan(dtype), threads=self._threads)
        from udfs.compiling.torch import Engine  # imports torch

        return Engine(self.rewritten(dtype).program, plan=self.plan(dtype), threads=self._threads)
