"""How a compiled model is held to its library: rows that decide, and results that agree."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from optimizer.compiling import Trees
from vista_spark.compiling import compile_pipeline

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from vista_spark.compiling import CompiledPipeline

__all__ = ["agree", "holes", "near_thresholds", "single", "strange"]

STRANGE = (0.0, -0.0, 1e30, -1e30, 5e-324, 1e-36, -1e-36, -1.0, -0.5, 2.7, 77.0, 2.0**24 + 1, 2.0**32 + 1)


def near_thresholds(compiled: CompiledPipeline, table: NDArray[Any], most: int = 150) -> NDArray[Any]:
    """Rows at the thresholds of trees, and at the floats beside them, of float32 and of float64."""
    rows = [table]
    for node in compiled.program.nodes:
        trees = node.operator
        if not isinstance(trees, Trees):
            continue
        inner = np.flatnonzero((trees.left != np.arange(len(trees.left))) & (trees.feature < table.shape[1]))
        for feature, at in zip(trees.feature[inner[:most]], trees.threshold[inner[:most]], strict=True):
            both = [single(np.asarray(at)), np.float64(at)]
            with np.errstate(over="ignore", under="ignore"):
                numbers = [np.nextafter(one, one.dtype.type(end)) for one in both for end in (-np.inf, np.inf)]
            near = np.repeat(table[:1], len(numbers) + 1, axis=0)
            near[:, feature] = [at, *numbers]
            rows.append(near)
    return np.concatenate(rows)


def strange(table: NDArray[Any], seed: int = 0, more: tuple[float, ...] = ()) -> NDArray[Any]:
    """The rows, a fifth of their numbers replaced by those that libraries treat in a way of their own."""
    draw = np.random.default_rng(seed)
    return np.where(draw.random(table.shape) < 0.2, draw.choice([*STRANGE, *more], table.shape), table)


def single(table: NDArray[Any]) -> Any:
    """The numbers as float32; those beyond it are infinite."""
    with np.errstate(over="ignore"):
        return table.astype(np.float32)[()]


def holes(table: NDArray[Any], seed: int = 0) -> NDArray[Any]:
    """The rows, a sixth of their numbers missing."""
    return np.where(np.random.default_rng(seed).random(table.shape) < 1 / 6, np.nan, table)


def agree(
    model: Any,
    table: NDArray[Any],
    *,
    truth: Mapping[str, Callable[[NDArray[Any]], Any]] | None = None,
    relative: float = 1e-9,
    absolute: float = 1e-12,
    strategies: tuple[str, ...] = ("auto",),
    compiled: CompiledPipeline | None = None,
) -> CompiledPipeline:
    """Compare every output on float64 and float32 tables; classes and leaves are equal, and values all but."""
    own = compiled or compile_pipeline(model)
    assert own.outputs
    for strategy in strategies:
        found = own if strategy == "auto" else type(own)(own.program, tree_strategy=strategy)
        for rows in (table, single(table), table[:1]):
            for method in own.outputs:
                with np.errstate(divide="ignore"):  # the logarithm of no probability
                    expected = np.asarray((truth or {}).get(method, getattr(model, method, None))(rows.copy()))
                ours = getattr(found, method)(rows)
                # Some libraries give one number a row in a column.
                assert expected.shape in {ours.shape, (*ours.shape, 1)}, method
                expected = expected.reshape(ours.shape)
                if expected.dtype.kind == "f" and method != "apply":
                    np.testing.assert_allclose(ours, expected, rtol=relative, atol=absolute, err_msg=method)
                else:
                    np.testing.assert_array_equal(ours, expected, err_msg=method)
    return own
