"""A program that is ready to run: numpy in, numpy out."""

from __future__ import annotations

import math
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from optimizer.compiling import FEW_ROWS, RULES, SparseRows, make_plan, reason_of
from udfs.compiling._answer import Answer
from udfs.compiling.torch._compiler import compiler
from udfs.compiling.torch._direct import Direct
from udfs.compiling.torch._kernels import Kernels
from udfs.compiling.torch._program import ProgramModule
from udfs.compiling.torch._texts import sparse_tensor
from udfs.compiling.torch._threads import torch_threads

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from numpy.typing import NDArray

    from optimizer.compiling import Plan, Program
    from udfs.compiling.torch._kernels import Part

__all__ = ["Engine"]

# Bytes beyond which the system looks for huge pages longer than small ones take.
_HUGE = 2**27


class Engine:
    """Run a program: eagerly, a chunk of rows at a time, or in kernels that Inductor compiled ahead of time.

    With ``backend="auto"`` a kernel is used if this node has built it before, and is built once the tables so far have
    taken as long as building would: so nobody waits more than twice the least time.

    Parameters
    ----------
    program : Program
    tree_strategy : str
        ``"auto"``, or one of ``optimizer.compiling.STRATEGIES`` for all trees.
    backend : str
        One of ``optimizer.compiling.BACKENDS``. Default ``"eager"``.
    threads : int, optional
        Threads that run a table; by default, torch's number.
    plan : optimizer.compiling.Plan, optional
        Instead of `tree_strategy` and `backend`.
    """

    def __init__(
        self,
        program: Program,
        tree_strategy: str = "auto",
        backend: str = "eager",
        threads: int | None = None,
        plan: Plan | None = None,
    ) -> None:
        self.program = program
        self.plan = plan or make_plan(program, tree_strategy=tree_strategy, backend=backend)
        self.chunk = self.plan.chunk
        self._threads = threads
        self._modules: dict[tuple[str, ...], ProgramModule] = {}
        self._kernels = self._kernels_of(program)
        self._spent_s = 0.0
        self._part: Callable[[tuple[str, ...]], Program] = lru_cache(maxsize=None)(program.only)
        self._direct: Callable[[tuple[str, ...]], Direct | None] = lru_cache(maxsize=None)(self._made_direct)

    def run(
        self,
        table: NDArray[Any],
        given: Sequence[NDArray[Any] | SparseRows] = (),
        outputs: Iterable[str] | None = None,
    ) -> Answer:
        """Run on a table of shape (rows, columns), float32 or float64.

        Parameters
        ----------
        table : array of shape (rows, columns)
        given : sequence of arrays
            What the host gave for each of ``program.host``: :class:`udfs.compiling.ColumnReader` makes both.
        outputs : iterable of str, optional
            Those that are wanted; all by default. What they do not need is not computed, and refuses no row.
        """
        names = tuple(self.program.outputs if outputs is None else outputs)
        if 0 < len(table) <= FEW_ROWS:
            direct = self._direct(names)
            if direct is not None:
                return self._directly(direct, table)
        part = self._part(names)
        kernels = self._ready_kernels(table, part)
        with torch.inference_mode():
            parts = self._eagerly(table, given, part) if kernels is None else kernels.run(table)
        answers = {
            name: output.answer(_joined([found[name] for found, _ in parts])) for name, output in part.outputs.items()
        }
        bad, reasons = np.zeros(len(table), np.bool_), []
        for node in part.nodes:
            if isinstance(node.operator, RULES):
                fails = _joined([rules[node.name] for _, rules in parts])
                if fails.any():
                    bad |= fails
                    reasons.append(reason_of(node.operator))
        return Answer(answers, bad, reasons)

    def module(self, rows: int) -> ProgramModule:
        """Give the eager program for tables of so many rows, made when the first one comes."""
        ways = self.plan.strategies_for(rows)
        key = tuple(ways.values())
        if key not in self._modules:
            self._modules[key] = ProgramModule(self.program, ways).eval()
        return self._modules[key]

    def _kernels_of(self, program: Program) -> Kernels | None:
        """Kernels of all outputs but the numbers of leaves: one kernel serves every method."""
        names = [name for name in program.outputs if name != "apply"]
        if self.plan.backend == "eager" or program.host or not names:
            return None
        if self.plan.backend == "auto" and self.plan.break_even_rows is None:
            return None
        threads = self._threads or torch.get_num_threads()
        return Kernels(program.only(names), self.plan.kernel_strategies, threads) if compiler() else None

    def _ready_kernels(self, table: NDArray[Any], part: Program) -> Kernels | None:
        if self._kernels is None or not len(table) or "apply" in part.outputs:
            return None
        may_build = self.plan.pays
        if may_build is None and not self._kernels.has(len(table), table.dtype):
            self._spent_s += max(self.plan.eager_seconds(len(table)) - self.plan.kernel_seconds(len(table)), 0.0)
            may_build = self._spent_s >= self.plan.costs.build_s
        auto = self.plan.backend == "auto"
        able = self._kernels.ready(table, may_build=bool(may_build), must_gain=auto)
        return self._kernels if able else None

    def _made_direct(self, names: tuple[str, ...]) -> Direct | None:
        """Make a list of calls for tables of few rows, where no kernel is to be had that could be faster."""
        part = self._part(names)
        native = all(way == "native" for way in self.plan.few_strategies.values())
        if not Direct.takes(part) or self.plan.backend == "inductor" or not (native or self._kernels is None):
            return None
        return Direct(self.module(1), part)

    def _directly(self, direct: Direct, table: NDArray[Any]) -> Answer:
        if self._threads is None or self._threads == torch.get_num_threads():
            outputs, broken = direct.run(_plain(table))
        else:
            with torch_threads(self._threads):
                outputs, broken = direct.run(_plain(table))
        bad = np.zeros(len(table), np.bool_)
        for _, fails in broken:
            bad |= fails
        return Answer(outputs, bad, [reason_of(rule) for rule, _ in broken])

    def _eagerly(self, table: NDArray[Any], given: Sequence[NDArray[Any] | SparseRows], part: Program) -> list[Part]:
        run = partial(self.module(len(table)).compute, part=part)
        whole: dict[str, torch.Tensor] = {}
        rules: list[dict[str, torch.Tensor]] = []
        with torch_threads(self._threads):
            for at in range(0, max(len(table), 1), self.chunk):
                rows, *others = (_tensor(one[at : at + self.chunk]) for one in (table, *given))
                results, broken = run(rows, others)
                if len(rows) == len(table):
                    return [(results, broken)]
                # Written where it belongs while it is in the cache; the memory of a chunk serves the next one.
                for name, result in results.items():
                    if not at:
                        whole[name] = _held(len(table), result)
                    whole[name][at : at + len(rows)] = result
                rules.append(broken)
        return [(whole, {name: torch.cat([one[name] for one in rules]) for name in rules[0]})]


def _held(rows: int, like: torch.Tensor) -> torch.Tensor:
    """Memory for the results of so many rows: from numpy, which asks for huge pages, where those come at once."""
    shape = (rows, *like.shape[1:])
    if math.prod(shape) * like.element_size() > _HUGE:
        return like.new_empty(shape)
    return torch.from_numpy(np.empty(shape, like[:0].numpy().dtype))


def _joined(parts: list[torch.Tensor]) -> NDArray[Any]:
    joined: NDArray[Any] = (parts[0] if len(parts) == 1 else torch.cat(parts)).numpy()
    return joined


def _tensor(part: NDArray[Any] | SparseRows) -> torch.Tensor:
    if isinstance(part, SparseRows):
        return sparse_tensor(part)
    return torch.from_numpy(_plain(part))


def _plain(table: NDArray[Any]) -> NDArray[Any]:
    # CatBoost makes the tables that it has seen read-only, and torch warns of such.
    return table if table.flags.carray else np.require(table, requirements=["C", "W"])
