"""Seconds that a program takes on a machine, by strategy and engine: what the planner compares.

Gathers have no FLOPs, so the model is one of measured times: seconds per call of a program and of an operator, and per
number that is gathered, multiplied, compared or added. Calls are nearly all that few rows take. The coefficients here
are rough ones, of one core of a Xeon of 2023.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ._arithmetic import Cast
from ._columns import Finite
from ._functions import Within
from ._guards import After
from ._trees import Trees

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ._program import Program

__all__ = [
    "FEW_ROWS",
    "WALKED_ROWS",
    "Costs",
    "TreeShape",
    "compiled_seconds",
    "eager_seconds",
    "eager_terms",
    "program_terms",
    "seconds_of",
    "shape_of",
]

FEW_ROWS = 64
"""Rows of a table whose time is that of calls."""
WALKED_ROWS = 4
"""Rows up to which each walks its trees alone in native code: a vector would be all but empty."""

_MAY_BE_MISSING = ("native_call_s", "native_row_s")


@dataclass(frozen=True, slots=True)
class Costs:
    """Coefficients of a machine, in seconds on one thread.

    Parameters
    ----------
    run_s : float
        One table, whatever runs: what is done before the first operator and after the last one.
    node_s : float
        One operator other than trees called eagerly, with what it checks.
    few_run_s, few_node_s : float
        The same for a table of at most :data:`FEW_ROWS` rows, which runs as a list of calls.
    call_s : float
        One operation of torch called eagerly, inside trees.
    walk_s : float
        One level of one tree for one row, by TreeTraversal; `far_s` more for each doubling of the table of nodes
        beyond the first 64 Ki.
    far_s : float
    perfect_s : float
        The same by PerfectTreeTraversal.
    strike_s : float
        One split of a bit vector for one row.
    split_s : float
        One split of GEMM decided for one row.
    mac_s : float
        One multiplication and addition of GEMM.
    leaf_s : float
        One leaf of GEMM compared.
    sum_s : float
        One value of a leaf added for one row.
    native_call_s : float
        One call of native code; infinite where a machine has none.
    native_row_s : float
        One call of it for at most :data:`WALKED_ROWS` rows; infinite where a machine has none.
    native_step_s : float
        One level of one tree that such a row steps down.
    native_split_s : float
        One split that native code decides for one row.
    native_walk_s : float
        One level of one tree below what it decides, for one row; `native_far_s` more per doubling.
    native_far_s : float
    native_read_s : float
        One number that it reads.
    native_sum_s : float
        One tree and value of a leaf, for one row.
    number_s : float
        One number of any other operator. A change of its type counts as nothing: there is seldom one to make.
    check_s : float
        One number of which it is asked whether the model takes it.
    kernel_call_s : float
        One call of a compiled kernel.
    bit_s : float
        One split of a bit vector, in a compiled kernel, for one row.
    kernel_walk_s : float
        One level of one tree for one row in a compiled kernel; `kernel_far_s` more per doubling.
    kernel_far_s : float
    kernel_sum_s : float
        One value of a leaf added for one row in a compiled kernel.
    build_s : float
        Building one kernel.
    """

    run_s: float = 4.5e-5
    node_s: float = 7e-6
    few_run_s: float = 3e-6
    few_node_s: float = 1.2e-6
    call_s: float = 7e-6
    walk_s: float = 9e-9
    far_s: float = 1.4e-9
    perfect_s: float = 9e-9
    strike_s: float = 1.2e-9
    split_s: float = 1.5e-9
    mac_s: float = 4e-11
    leaf_s: float = 1.2e-9
    sum_s: float = 6e-9
    native_call_s: float = 3e-5
    native_row_s: float = 1.5e-6
    native_step_s: float = 2e-9
    native_split_s: float = 6e-11
    native_walk_s: float = 1e-9
    native_far_s: float = 2e-10
    native_read_s: float = 8e-10
    native_sum_s: float = 1.2e-9
    number_s: float = 1.5e-9
    check_s: float = 2e-10
    kernel_call_s: float = 1.2e-5
    bit_s: float = 7e-11
    kernel_walk_s: float = 2.5e-9
    kernel_far_s: float = 3e-10
    kernel_sum_s: float = 1.2e-9
    build_s: float = 25.0

    def document(self) -> dict[str, float]:
        """Give the coefficients as JSON takes them."""
        return asdict(self)

    @classmethod
    def of_document(cls, document: Mapping[str, Any]) -> Costs:
        """Read what :meth:`document` gave.

        Raises
        ------
        TypeError, ValueError
            A coefficient is missing or unknown, or is no positive number.
        """
        costs = cls(**{name: float(value) for name, value in document.items()})
        numbers = {name: value for name, value in asdict(costs).items() if name not in _MAY_BE_MISSING}
        if len(document) != len(numbers) + len(_MAY_BE_MISSING) or not all(
            0 <= value < np.inf for value in numbers.values()
        ):
            raise ValueError("coefficients of another version")
        return costs

    def without_native_code(self) -> Costs:
        """Have native code cost everything, so that no plan has it: a machine cannot build it, or a tracer reads."""
        return replace(self, **dict.fromkeys(_MAY_BE_MISSING, math.inf))


@dataclass(frozen=True, slots=True)
class TreeShape:
    """What the time of trees depends on.

    Parameters
    ----------
    trees, depth, nodes, values : int
        Trees, splits on the longest path, nodes of all trees, and numbers that a leaf adds.
    steps : int
        Levels of all trees, each as deep as it is.
    splits, leaves : int
        Of the tree that has most.
    top_splits : int
        Splits that bit vectors decide, of all trees.
    below : int
        Levels below the tops, of all trees.
    columns : int
        Columns that some tree looks at.
    """

    trees: int
    depth: int
    nodes: int
    values: int
    steps: int
    splits: int
    leaves: int
    top_splits: int
    below: int
    columns: int


_TOP_SPLITS, _TOP_DEPTH = 31, 5
_NEAR = 2**16
_LANES, _VECTORS, _NATIVE_ROWS = 16, 64, 8192


def shape_of(trees: Trees) -> TreeShape:
    """Measure trees."""
    depths = trees.depths()
    splits = _splits(trees)
    deep = splits > _TOP_SPLITS
    return TreeShape(
        trees=len(trees.root),
        depth=int(depths.max(initial=0)),
        nodes=len(trees.feature),
        values=trees.value.shape[1],
        steps=int(depths.sum()),
        splits=int(splits.max(initial=0)),
        leaves=int(splits.max(initial=0)) + 1,
        top_splits=int(np.minimum(splits, _TOP_SPLITS).sum()),
        below=int(deep.sum()) * max(int(depths[deep].max(initial=0)) - _TOP_DEPTH, 1 if deep.any() else 0),
        columns=len(np.unique(trees.feature[trees.left != np.arange(len(trees.left))])),
    )


def _splits(trees: Trees) -> Any:
    """Splits of each tree."""
    count = np.zeros(len(trees.root), np.int64)
    tree, at = np.arange(len(trees.root)), trees.root
    while len(at):
        inner = trees.left[at] != at
        tree, at = tree[inner], at[inner]
        np.add.at(count, tree, 1)
        tree, at = np.concatenate([tree, tree]), np.concatenate([trees.left[at], trees.right[at]])
    return count


def eager_terms(shape: TreeShape, strategy: str, rows: int, chunk: int) -> dict[str, float]:
    """How often each coefficient counts when trees run eagerly: what a fit needs."""
    if strategy == "native" and rows <= WALKED_ROWS:
        return {"native_row_s": 1.0, "native_step_s": float(rows * shape.steps)}
    if strategy == "native":
        # Rows are decided 16 or 64 at a time.
        whole = rows if rows >= _VECTORS else -(-rows // _LANES) * _LANES
        levels = float(whole * shape.below)
        return {
            "native_call_s": float(-(-rows // _NATIVE_ROWS)),
            "native_split_s": float(whole * shape.top_splits),
            "native_walk_s": levels,
            "native_far_s": levels * max(math.log2(max(shape.nodes, 1) / _NEAR), 0.0),
            "native_sum_s": float(rows * shape.trees * shape.values),
            "native_read_s": float(rows * shape.columns),
        }
    chunks = -(-rows // chunk)
    common = {"sum_s": float(rows * shape.trees * shape.values)}
    far = max(math.log2(max(shape.nodes, 1) / _NEAR), 0.0)
    if strategy == "traversal":
        levels = float(rows * shape.steps)
        return common | {"call_s": chunks * (8.0 * shape.depth + 12), "walk_s": levels, "far_s": levels * far}
    if strategy == "perfect":
        levels = float(rows * shape.trees * shape.depth)
        return common | {"call_s": chunks * (8.0 * shape.depth + 10), "perfect_s": levels}
    if strategy == "gemm":
        return common | {
            "call_s": chunks * 18.0,
            "split_s": float(rows * shape.trees * shape.splits),
            "mac_s": float(rows * shape.trees * shape.splits * shape.leaves),
            "leaf_s": float(rows * shape.trees * shape.leaves),
        }
    levels = float(rows * shape.below)
    return common | {
        "call_s": chunks * (5.0 * min(shape.splits, _TOP_SPLITS) + 20),
        "strike_s": float(rows * shape.top_splits),
        "walk_s": levels,
        "far_s": levels * far,
    }


def seconds_of(terms: Mapping[str, float], costs: Costs) -> float:
    """Add up what coefficients count."""
    return sum(float(getattr(costs, name)) * times for name, times in terms.items())


def eager_seconds(shape: TreeShape, strategy: str, rows: int, chunk: int, costs: Costs) -> float:
    """Predict the time of trees that run eagerly."""
    return seconds_of(eager_terms(shape, strategy, rows, chunk), costs)


def compiled_seconds(shape: TreeShape, rows: int, costs: Costs) -> float:
    """Predict the time of trees in a kernel, by bit vectors."""
    far = max(math.log2(max(shape.nodes, 1) / _NEAR), 0.0)
    return rows * (
        shape.top_splits * costs.bit_s
        + shape.below * (costs.kernel_walk_s + far * costs.kernel_far_s)
        + shape.trees * shape.values * costs.kernel_sum_s
    )


def program_terms(program: Program, rows: int, chunk: int) -> dict[str, float]:
    """How often each coefficient counts in what is no trees: the call of the program, and its other operators."""
    nodes = [node for node in program.nodes if not isinstance(node.operator, Trees | Cast | After)]
    checks = [node for node in nodes if isinstance(node.operator, Finite | Within)]
    checked = rows * sum(program.widths[node.name] for node in checks)
    numbers = {"number_s": rows * sum(program.widths[node.name] for node in nodes) - checked, "check_s": checked}
    if rows <= FEW_ROWS and not program.host:
        return {"few_run_s": 1.0, "few_node_s": float(len(nodes)), **numbers}
    return {"run_s": 1.0, "node_s": float(-(-rows // chunk) * len(nodes)), **numbers}
