"""A program that is ready to run: numpy in, numpy out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch

from optimizer.compiling import Finite, make_plan
from udfs.compiling.torch._ahead import has_compiler
from udfs.compiling.torch._kernels import Kernels
from udfs.compiling.torch._program import ProgramModule

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from optimizer.compiling import Plan, Program
    from udfs.compiling.torch._kernels import Part

__all__ = ["Answer", "Engine"]


class Answer(NamedTuple):
    """Results of a program for a table.

    Parameters
    ----------
    outputs : dict of str to array, or list of arrays
        As the library gives them: see :class:`optimizer.compiling.Output`.
    bad : bool array of shape (rows,)
        Rows that the library refuses. Their results mean nothing.
    reasons : list of str
        One for each rule that some row breaks.
    """

    outputs: dict[str, Any]
    bad: NDArray[np.bool_]
    reasons: list[str]


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
        Threads that run a table. By default eager operators take torch's number, and kernels one.
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
        self.module = ProgramModule(program, self.plan.strategies).eval()
        able = self.plan.backend != "eager" and (bool(self.plan.shapes) or self.plan.backend == "inductor")
        self._kernels = Kernels(program, self.plan.kernel_strategies, threads or 1) if able and has_compiler() else None
        self._saved_s = 0.0

    def run(self, table: NDArray[Any]) -> Answer:
        """Run on a table of shape (rows, columns), float32 or float64."""
        kernels = self._ready_kernels(table)
        with torch.inference_mode():
            parts = self._eagerly(table) if kernels is None else kernels.run(table)
        outputs = {}
        for name, output in self.program.outputs.items():
            outputs[name] = output.answer(_joined([given[name] for given, _ in parts]))
        bad, reasons = np.zeros(len(table), np.bool_), []
        for node in self.program.nodes:
            if isinstance(node.operator, Finite):
                fails = _joined([rules[node.name] for _, rules in parts])
                bad |= fails
                if fails.any():
                    reasons.append(reason_of(node.operator))
        return Answer(outputs, bad, reasons)

    def _ready_kernels(self, table: NDArray[Any]) -> Kernels | None:
        if self._kernels is None or not len(table):
            return None
        may_build = self.plan.pays
        if may_build is None:
            rows = len(table)
            self._saved_s += max(self.plan.eager_seconds(rows) - self.plan.kernel_seconds(rows), 0.0)
            may_build = self._saved_s >= self.plan.costs.build_s
        return self._kernels if self._kernels.ready(len(table), table.dtype, may_build=may_build) else None

    def _eagerly(self, table: NDArray[Any]) -> list[Part]:
        module = self.module
        before = torch.get_num_threads()
        if self._threads not in {None, before}:
            torch.set_num_threads(self._threads)
        try:
            starts = range(0, max(len(table), 1), self.chunk)
            return [module(torch.from_numpy(np.ascontiguousarray(table[at : at + self.chunk]))) for at in starts]
        finally:
            if self._threads not in {None, before}:
                torch.set_num_threads(before)


def _joined(parts: list[torch.Tensor]) -> NDArray[Any]:
    joined: NDArray[Any] = (parts[0] if len(parts) == 1 else torch.cat(parts)).numpy()
    return joined


def reason_of(rule: Finite) -> str:
    """Say what a row must not have."""
    held = "an infinity" if rule.nan else "NaN or an infinity"
    return f"{held}{' in float32' if rule.dtype == 'float32' else ''}, which {rule.who} does not take"
