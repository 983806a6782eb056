"""The plan of a program on a machine: strategy, engine, chunk, and whether building a kernel pays."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from optimizer.notebook import ExplainedInNotebooks

from ._chunk import rows_at_a_time
from ._cost import FEW_ROWS, Costs, compiled_seconds, eager_seconds, program_terms, seconds_of, shape_of
from ._errors import UnsupportedOperatorError
from ._strategy import cheapest_strategy, strategies_of
from ._trees import Trees

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ._cost import TreeShape
    from ._program import Program

__all__ = ["BACKENDS", "Plan", "make_plan"]

BACKENDS = ("auto", "eager", "inductor", "onnxruntime")
"""Engines by name, as ``compile_pipeline(backend=)`` takes them."""

_SMALL, _LARGE = 16, 1024
_FEW = 256
_TYPICAL_ROWS = 10_000


@dataclass(frozen=True, eq=False, slots=True)
class Plan(ExplainedInNotebooks):
    """How a program runs. A frozen value that explains itself.

    Parameters
    ----------
    program : Program
    tree_strategy : str
        The strategy of all trees, or ``"auto"``.
    backend : str
        ``"eager"``, ``"inductor"``, ``"onnxruntime"``, or ``"auto"``: eagerly until a kernel would have paid for its
        building.
    chunk : int
        Rows at a time, but in kernels.
    rows : int or None
        Rows that are to come, if they are known.
    costs : Costs
    shapes : mapping of str to TreeShape
        Of each node of trees.
    strategies : mapping of str to str
        How each node of trees runs eagerly.
    few_strategies : mapping of str to str
        The same for a table of few rows, at most :data:`FEW_ROWS`, whose time is that of calls.
    rewrites : tuple of str
        What was done to the program, as ``"for float64: constant folded: ..."``.
    """

    program: Program
    tree_strategy: str
    backend: str
    chunk: int
    rows: int | None
    costs: Costs
    shapes: Mapping[str, TreeShape]
    strategies: Mapping[str, str]
    few_strategies: Mapping[str, str]
    rewrites: tuple[str, ...] = ()

    @property
    def kernel_strategies(self) -> dict[str, str]:
        """How each node of trees runs in a kernel: by bit vectors, unless another strategy is forced."""
        own = "bitvector" if self.tree_strategy in {"auto", "native"} else self.tree_strategy
        return dict.fromkeys(self.shapes, own)

    def strategies_for(self, rows: int) -> Mapping[str, str]:
        """How each node of trees runs eagerly in a table of so many rows."""
        return self.few_strategies if rows <= FEW_ROWS else self.strategies

    def eager_seconds(self, rows: int) -> float:
        """Predict the seconds that a table of so many rows takes eagerly, on one thread."""
        ways = self.strategies_for(rows)
        own = sum(eager_seconds(shape, ways[name], rows, self.chunk, self.costs) for name, shape in self.shapes.items())
        return own + seconds_of(program_terms(self.program, rows, self.chunk), self.costs)

    def kernel_seconds(self, rows: int) -> float:
        """Predict the seconds that it takes in kernels that are built, on one thread."""
        large = 0 if rows <= _FEW else math.ceil((rows - _FEW) / _LARGE)
        small = math.ceil(max(rows - large * _LARGE, 0) / _SMALL)
        padded = large * _LARGE + small * _SMALL
        own = sum(compiled_seconds(shape, padded, self.costs) for shape in self.shapes.values())
        others = sum(self.program.widths[node.name] for node in self.program.nodes if node.name not in self.shapes)
        calls = self.costs.run_s + (large + small) * self.costs.kernel_call_s
        return calls + own + padded * others * self.costs.number_s

    @property
    def break_even_rows(self) -> int | None:
        """Rows from which building a kernel pays, or ``None`` where it never does."""
        gain = (self.eager_seconds(_TYPICAL_ROWS) - self.kernel_seconds(_TYPICAL_ROWS)) / _TYPICAL_ROWS
        return math.ceil(self.costs.build_s / gain) if gain > 0 and self.shapes else None

    @property
    def pays(self) -> bool | None:
        """Whether building pays for the rows to come; ``None`` where nobody knows how many they are."""
        if self.backend != "auto":
            return self.backend == "inductor"
        even = self.break_even_rows
        if self.rows is None and even is not None:
            return None
        return even is not None and (self.rows or 0) >= even

    @property
    def engine(self) -> str:
        """The engine that runs the first table where no kernel is there yet."""
        if self.backend == "onnxruntime":
            return self.backend
        return "inductor" if self.pays else "eager"

    def explain(self) -> str:
        """Describe operators, rewrites, strategy, engine, predicted seconds and break-even rows."""
        lines = [self.program.explain()]
        lines += [f"  rewritten {rewrite}" for rewrite in self.rewrites]
        known = "an unknown number" if self.rows is None else f"{self.rows:,}"
        engine = f"engine {self.engine} (backend={self.backend!r}), {self.chunk:,} rows at a time, {known} to come"
        if self.backend == "onnxruntime":
            lines += [f"  {name} runs by {way}" for name, way in self.strategies.items()]
            return "\n".join([*lines, engine, "seconds of ONNX Runtime are not predicted"])
        typical, kernel = self.rows or _TYPICAL_ROWS, self.kernel_strategies
        lines += [f"  {name} runs by {self._ways(name)}; in a kernel by {kernel[name]}" for name in self.strategies]
        lines.append(engine)
        lines += [
            f"predicted for {rows:,} rows: {self.eager_seconds(rows):.2g} s eagerly, "
            f"{self.kernel_seconds(rows):.2g} s in kernels"
            for rows in sorted({1, 1_000, typical})
        ]
        even = self.break_even_rows
        pays = "never pays" if even is None else f"pays from {even:,} rows"
        lines.append(f"a kernel takes {self.costs.build_s:.2g} s to build, which {pays}")
        return "\n".join(lines)

    def _ways(self, name: str) -> str:
        many, few = self.strategies[name], self.few_strategies[name]
        return many if few == many else f"{many}, up to {FEW_ROWS} rows by {few}"


def make_plan(
    program: Program,
    *,
    tree_strategy: str = "auto",
    backend: str = "auto",
    rows: int | None = None,
    costs: Costs | None = None,
    rewrites: Iterable[str] = (),
) -> Plan:
    """Choose how a program runs.

    Parameters
    ----------
    program : Program
    tree_strategy : str
        ``"auto"``, or one of :data:`optimizer.compiling.STRATEGIES` to have that one.
    backend : str
        One of :data:`BACKENDS`.
    rows : int, optional
        Rows that are to come in all.
    costs : Costs, optional
        Of this machine: the strategy that they predict to be fastest is chosen. Without them, the heuristics of
        :func:`choose_strategy` choose, and predictions are those of a typical machine.
    rewrites : iterable of str
        What was done to the program.

    Raises
    ------
    UnsupportedOperatorError
        There is no such backend or strategy, the trees would not fit into memory, or ONNX Runtime is to run them in
        another way than level by level.
    """
    if backend not in BACKENDS:
        raise UnsupportedOperatorError(f"backend={backend!r} is none of {', '.join(BACKENDS)}")
    if backend == "onnxruntime":
        if tree_strategy not in {"auto", "traversal"}:
            raise UnsupportedOperatorError(
                f"tree_strategy={tree_strategy!r}: backend='onnxruntime' runs trees by 'traversal' alone: leave it out"
            )
        tree_strategy, costs = "traversal", None
    forced = strategies_of(program, tree_strategy)
    trees = {node.name: node.operator for node in program.nodes if isinstance(node.operator, Trees)}
    shapes = {name: shape_of(one) for name, one in trees.items()}
    chunk, own = rows_at_a_time(program), costs or Costs()

    def chosen(count: int) -> dict[str, str]:
        if tree_strategy != "auto" or costs is None:
            return forced
        return {name: cheapest_strategy(one, shapes[name], count, chunk, own) for name, one in trees.items()}

    many, few = chosen(max(rows or _TYPICAL_ROWS, FEW_ROWS + 1)), chosen(1)
    if many and set(many.values()) == {"native"}:
        chunk = rows_at_a_time(program, native=True)
    return Plan(program, tree_strategy, backend, chunk, rows, own, shapes, many, few, tuple(rewrites))
