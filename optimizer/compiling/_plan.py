"""Plan of a program: backend, strategies of its trees, and rows per chunk."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from optimizer.compiling._chunk import rows_at_a_time
from optimizer.compiling._errors import UnsupportedOperatorError
from optimizer.compiling._strategy import choose_strategies
from optimizer.notebook import ExplainedInNotebooks

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from optimizer.compiling._program import Program

BACKENDS = ("auto", "eager", "onnxruntime")
"""Backends by name, as ``compile_pipeline(backend=)`` takes them."""

_REMOVED = frozenset({"inductor"})


@dataclass(frozen=True, eq=False, slots=True)
class Plan(ExplainedInNotebooks):
    """Plan of how a program runs, a frozen value that explains itself.

    Parameters
    ----------
    program : Program
        The program that runs, after its rewrites.
    tree_strategy : str
        Requested strategy of all trees, or ``"auto"``.
    backend : {"auto", "eager", "onnxruntime"}
        Requested backend.
    chunk : int
        Rows per chunk.
    strategies : mapping of str to str
        Strategy of each node of trees, by the name of the node.
    rewrites : tuple of str
        Rewrites of the program, as ``"for float64: constant folded: ..."``.
    """

    program: Program
    tree_strategy: str
    backend: str
    chunk: int
    strategies: Mapping[str, str]
    rewrites: tuple[str, ...] = ()

    @property
    def engine(self) -> str:
        """Engine that runs the program: ``"eager"`` for torch, or ``"onnxruntime"``."""
        return "onnxruntime" if self.backend == "onnxruntime" else "eager"

    def explain(self) -> str:
        """Describe operators, rewrites, strategies, engine and chunk."""
        lines = [self.program.explain()]
        lines += [f"  rewritten {rewrite}" for rewrite in self.rewrites]
        lines += [f"  {name} runs by {strategy}" for name, strategy in self.strategies.items()]
        lines.append(f"engine {self.engine} (backend={self.backend!r}), {self.chunk:,} rows at a time")
        return "\n".join(lines)


def make_plan(
    program: Program,
    *,
    tree_strategy: str = "auto",
    backend: str = "auto",
    native: bool = True,
    rewrites: Iterable[str] = (),
) -> Plan:
    """Choose how a program runs.

    Parameters
    ----------
    program : Program
        The program.
    tree_strategy : str
        ``"auto"``, or one of :data:`optimizer.compiling.STRATEGIES` to force it. Default ``"auto"``: native code, or
        the tensor program of :func:`choose_strategy` without it.
    backend : {"auto", "eager", "onnxruntime"}
        Runtime of the program. Default ``"auto"``, which is ``"eager"``.
    native : bool
        Whether native code can run: a machine without a C++ compiler has none. Default true.
    rewrites : iterable of str
        Rewrites of the program, for :meth:`Plan.explain`.

    Returns
    -------
    Plan
        The plan.

    Raises
    ------
    UnsupportedOperatorError
        The backend or the strategy is unknown, the trees do not fit into memory, or `backend` is ``"onnxruntime"`` and
        `tree_strategy` is neither ``"auto"`` nor ``"traversal"``.
    """
    if backend not in BACKENDS:
        raise UnsupportedOperatorError(f"backend must be one of {', '.join(map(repr, BACKENDS))}, got {backend!r}.")
    if backend == "onnxruntime":
        if tree_strategy not in {"auto", "traversal"}:
            raise UnsupportedOperatorError(
                f"tree_strategy must be 'auto' or 'traversal' with backend='onnxruntime', got {tree_strategy!r}."
            )
        tree_strategy = "traversal"
    strategies = choose_strategies(program, tree_strategy, native=native)
    all_native = bool(strategies) and set(strategies.values()) == {"native"}
    chunk = rows_at_a_time(program, native=all_native)
    return Plan(program, tree_strategy, backend, chunk, strategies, tuple(rewrites))


def saved_backend(backend: str) -> str:
    """Return the backend for a saved one: ``"auto"`` for those that earlier versions had."""
    return "auto" if backend in _REMOVED else backend
