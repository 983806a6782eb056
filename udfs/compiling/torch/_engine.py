"""Engine that runs a program in torch, from numpy arrays to numpy arrays."""

from __future__ import annotations

import math
import time
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from optimizer.compiling import FEW_ROWS, RULES, SparseRows, make_plan, origins, reason_of
from udfs.compiling._answer import Answer, Refusal
from udfs.compiling.torch._call_list import CallList
from udfs.compiling.torch._native_code import has_native_code
from udfs.compiling.torch._program import ProgramModule
from udfs.compiling.torch._row_checks import broken_cells
from udfs.compiling.torch._texts import sparse_tensor
from udfs.compiling.torch._threads import one_operator_thread, thread_pool, torch_threads

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from numpy.typing import NDArray

    from optimizer.compiling import Plan, Program

__all__ = ["Engine"]

# Bytes beyond which the system looks for huge pages longer than small ones take.
_HUGE = 2**27
# Seconds of the chunks that are left, from which threads gain more than they cost.
_WORTH_S = 0.02


class Engine:
    """Executor of a program in torch: a chunk of rows at a time, or a list of calls for few rows.

    A node without a C++ compiler runs trees by a tensor program where the plan has native code.

    Parameters
    ----------
    tree_strategy : str
        ``"auto"``, or one of ``optimizer.compiling.STRATEGIES`` for all trees. Default ``"auto"``.
    threads : int, optional
        Threads that run chunks of a long table, or its trees. Default torch's number.
    plan : optimizer.compiling.Plan, optional
        Plan to follow instead of `tree_strategy`.
    """

    def __init__(
        self, program: Program, tree_strategy: str = "auto", threads: int | None = None, plan: Plan | None = None
    ) -> None:
        self.program = program
        plan = plan or make_plan(program, tree_strategy=tree_strategy)
        if "native" in plan.strategies.values() and not has_native_code():
            plan = make_plan(program, tree_strategy=plan.tree_strategy, native=False, rewrites=plan.rewrites)
        self.plan = plan
        self._threads = threads
        self._part: Callable[[tuple[str, ...]], Program] = lru_cache(maxsize=None)(program.only)
        self._call_list: Callable[[tuple[str, ...]], CallList | None] = lru_cache(maxsize=None)(self._build_call_list)

    @cached_property
    def module(self) -> ProgramModule:
        """Module of the program, which is built on first access."""
        return ProgramModule(self.program, self.plan.strategies).eval()

    def run(
        self,
        table: NDArray[Any],
        host_tables: Sequence[NDArray[Any] | SparseRows] = (),
        outputs: Iterable[str] | None = None,
    ) -> Answer:
        """Run on a table of shape (rows, columns), float32 or float64.

        Parameters
        ----------
        table : array of shape (rows, columns)
            Numbers, as :class:`udfs.compiling.ColumnReader` reads them.
        host_tables : sequence of arrays
            Result of the host for each of ``program.host``, from the same reader.
        outputs : iterable of str, optional
            Names of requested outputs. Default all. Operators that they do not need are not computed and refuse no row.
        """
        names = tuple(self.program.outputs if outputs is None else outputs)
        if 0 < len(table) <= FEW_ROWS:
            calls = self._call_list(names)
            if calls is not None:
                return self._run_calls(calls, table)
        part = self._part(names)
        results, broken = self._run_chunks(table, host_tables, part)
        answers = {name: output.answer(results[name].numpy()) for name, output in part.outputs.items()}
        bad, reasons = np.zeros(len(table), np.bool_), []
        for node in part.nodes:
            if isinstance(node.operator, RULES):
                fails = broken[node.name].numpy()
                if fails.any():
                    bad |= fails
                    reasons.append(reason_of(node.operator))
        return Answer(answers, bad, reasons)

    def refusals(
        self,
        table: NDArray[Any],
        host_tables: Sequence[NDArray[Any] | SparseRows],
        outputs: Iterable[str],
    ) -> list[Refusal]:
        """Return what each rule refuses in some rows, cell by cell. Parameters are those of :meth:`run`."""
        part = self._part(tuple(outputs))
        with torch.inference_mode(), one_operator_thread(1):
            values = [_tensor(rows) for rows in (table, *host_tables)]
            _, cells = self.module.compute(values[0], values[1:], part, broken_cells)
        columns = origins(part)
        return [
            Refusal(reason_of(node.operator), cells[node.name].numpy(), columns[node.inputs[0]])
            for node in part.nodes
            if isinstance(node.operator, RULES)
        ]

    def _build_call_list(self, names: tuple[str, ...]) -> CallList | None:
        part = self._part(names)
        return CallList(self.module, part) if CallList.takes(part) else None

    def _run_calls(self, calls: CallList, table: NDArray[Any]) -> Answer:
        with torch_threads(1):
            outputs, broken = calls.run(_plain(table))
        bad = np.zeros(len(table), np.bool_)
        for _, fails in broken:
            bad |= fails
        return Answer(outputs, bad, [reason_of(rule) for rule, _ in broken])

    def _run_chunks(
        self, table: NDArray[Any], host_tables: Sequence[NDArray[Any] | SparseRows], part: Program
    ) -> tuple[dict[str, torch.Tensor], dict[str, torch.Tensor]]:
        """Compute results and broken rules of a table, a chunk of rows at a time, and long ones side by side."""
        chunk, threads = self.plan.chunk, self._threads or torch.get_num_threads()

        def run(at: int, trees: int) -> tuple[dict[str, torch.Tensor], dict[str, torch.Tensor]]:
            with torch.inference_mode(), one_operator_thread(trees):
                rows, *others = (_tensor(values[at : at + chunk]) for values in (table, *host_tables))
                return self.module.compute(rows, others, part)

        began = time.perf_counter()
        results, broken = run(0, threads)
        if len(table) <= chunk:
            return results, broken
        seconds = time.perf_counter() - began
        with torch.inference_mode():
            whole = {name: _empty(len(table), result) for name, result in results.items()}
            rules = {name: torch.empty(len(table), dtype=torch.bool) for name in broken}
        starts = range(chunk, len(table), chunk)
        side_by_side = threads > 1 and seconds * len(starts) > _WORTH_S

        def write(at: int, answers: tuple[dict[str, torch.Tensor], dict[str, torch.Tensor]]) -> None:
            # Written where it belongs while it is in the cache. The memory of a chunk serves the next one.
            with torch.inference_mode():
                for into, tensors in zip((whole, rules), answers, strict=True):
                    for name, tensor in tensors.items():
                        into[name][at : at + chunk] = tensor

        write(0, (results, broken))
        if side_by_side:
            list(thread_pool(threads).map(lambda at: write(at, run(at, 1)), starts))
        else:
            for at in starts:
                write(at, run(at, threads))
        return whole, rules


def _empty(rows: int, like: torch.Tensor) -> torch.Tensor:
    """Allocate results for a number of rows; large ones with numpy, because it requests huge pages."""
    shape = (rows, *like.shape[1:])
    if math.prod(shape) * like.element_size() > _HUGE:
        return like.new_empty(shape)
    return torch.from_numpy(np.empty(shape, like[:0].numpy().dtype))


def _tensor(part: NDArray[Any] | SparseRows) -> torch.Tensor:
    if isinstance(part, SparseRows):
        return sparse_tensor(part)
    return torch.from_numpy(_plain(part))


def _plain(table: NDArray[Any]) -> NDArray[Any]:
    # CatBoost makes the tables that it has seen read-only, and torch warns of such.
    return table if table.flags.carray else np.require(table, requirements=["C", "W"])
