"""Plans: forced and chosen strategies, backends, and rows per chunk."""

from __future__ import annotations

import numpy as np
import pytest

from optimizer.compiling import (
    INPUT,
    STRATEGIES,
    Arithmetic,
    Builder,
    Linear,
    Output,
    Program,
    Trees,
    UnsupportedOperatorError,
    make_plan,
    saved_backend,
    saved_strategy,
)


def perfect_trees(count: int, depth: int) -> Trees:
    nodes = 2 ** (depth + 1) - 1
    inner = np.arange(nodes) < 2**depth - 1
    own = np.arange(nodes)
    left, right = np.where(inner, 2 * own + 1, -1), np.where(inner, 2 * own + 2, -1)
    starts = np.arange(count)[:, None] * nodes
    return Trees.of_nodes(
        feature=np.zeros(count * nodes),
        threshold=np.zeros(count * nodes, np.float32),
        left=np.where(left < 0, -1, left + starts).reshape(-1),
        right=np.where(right < 0, -1, right + starts).reshape(-1),
        missing_left=np.zeros(count * nodes, np.bool_),
        value=np.zeros((count * nodes, 1)),
        root=starts[:, 0],
        target=np.zeros(count),
        base=[0.0],
        divisor=1.0,
        features=1,
        missing=False,
    )


def program(count: int, depth: int) -> Program:
    build = Builder(1)
    return build.program({"predict": Output(build.add(perfect_trees(count, depth), INPUT))})


def chain(depth: int) -> Program:
    """One split a level: the odd nodes are leaves, the even ones go on."""
    place = np.arange(2 * depth + 1)
    split = (place % 2 == 0) & (place < 2 * depth)
    tree = Trees.of_nodes(
        feature=np.zeros(len(place)),
        threshold=np.zeros(len(place), np.float32),
        left=np.where(split, place + 1, -1),
        right=np.where(split, place + 2, -1),
        missing_left=np.zeros(len(place), np.bool_),
        value=np.zeros((len(place), 1)),
        root=[0],
        target=[0],
        base=[0.0],
        divisor=1.0,
        features=1,
        missing=False,
    )
    build = Builder(1)
    return build.program({"predict": Output(build.add(tree, INPUT))})


def numbers() -> Program:
    build = Builder(1)
    return build.program({"transform": Output(build.add(Arithmetic("add", np.ones(1)), INPUT))})


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_forced_strategy_is_kept(strategy: str) -> None:
    assert make_plan(program(4, 4), tree_strategy=strategy).strategies == {"trees": strategy}


@pytest.mark.parametrize(("depth", "expected"), [(3, "gemm"), (10, "perfect"), (11, "traversal")])
def test_depth_decides_where_native_code_is_missing(depth: int, expected: str) -> None:
    trees = program(2, depth)
    native, tensor = make_plan(trees), make_plan(trees, native=False)
    assert (native.strategies, tensor.strategies) == ({"trees": "native"}, {"trees": expected})
    assert make_plan(trees, tree_strategy="native", native=False).strategies == {"trees": expected}
    assert f"trees runs by {expected}" in tensor.explain()


def test_chunks_of_tensor_programs_are_shorter() -> None:
    assert make_plan(program(50, 5), native=False).chunk < make_plan(program(50, 5)).chunk


def test_unknown_backends_and_strategies_are_refused() -> None:
    with pytest.raises(UnsupportedOperatorError, match=r"backend must be one of .*, got 'tvm'"):
        make_plan(numbers(), backend="tvm")
    with pytest.raises(UnsupportedOperatorError, match=r"tree_strategy must be one of 'auto', 'gemm'.*, got 'fast'"):
        make_plan(numbers(), tree_strategy="fast")
    with pytest.raises(UnsupportedOperatorError, match=r"tree_strategy must be 'auto' or 'traversal'.*, got 'gemm'"):
        make_plan(program(1, 1), tree_strategy="gemm", backend="onnxruntime")


def test_perfect_trees_that_do_not_fit_are_refused() -> None:
    with pytest.raises(UnsupportedOperatorError, match="tree_strategy must fit into memory, got 'perfect'"):
        make_plan(chain(27), tree_strategy="perfect")
    assert make_plan(chain(27), native=False).strategies == {"trees": "traversal"}


def test_saved_options_of_earlier_versions_become_auto() -> None:
    assert [saved_strategy(name) for name in ("bitvector", "perfect", "auto")] == ["auto", "perfect", "auto"]
    assert [saved_backend(name) for name in ("inductor", "onnxruntime")] == ["auto", "onnxruntime"]


def test_chunks_without_trees_stay_in_the_cache() -> None:
    """Half a million numbers at a time; trees count by their own gathers, and wide tables by their widest one."""

    def chunk(width: int, *, columns: int = 1) -> int:
        build = Builder(width)
        scores = build.add(Linear(np.ones((width, columns)), np.zeros(columns)), INPUT)
        return make_plan(build.program({"predict": Output(scores)})).chunk

    assert chunk(4) == chunk(20) == chunk(200) == 2048
    assert chunk(4, columns=16) == 2048
    assert chunk(4096) == chunk(4, columns=4096) == 128
