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

__all__ = ["BACKENDS", "Plan", "make_plan", "saved_backend"]

BACKENDS = ("auto", "eager", "onnxruntime")
"""Backends by name, as ``compile_pipeline(backend=)`` takes them."""

_REMOVED = frozenset({"inductor"})


@dataclass(frozen=True, eq=False, slots=True)
class Plan(ExplainedInNotebooks):
    """Plan of how a program runs, a frozen value that explains itself.

    ``program`` is rewritten. ``tree_strategy`` and ``backend`` are as requested; ``strategies`` has that of each node
    of trees.
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

    ``"auto"`` is native code for trees, or the tensor program of :func:`choose_strategy` where it cannot run
    (``native=False``: a machine without a C++ compiler), and the backend ``"eager"``. Raise UnsupportedOperatorError if
    the backend or the strategy is unknown, the trees do not fit into memory, or ``"onnxruntime"`` is not with
    ``"auto"`` or ``"traversal"``.
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
