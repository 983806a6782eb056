"""What trees cost on this machine: a second of measurements, kept on the node."""

from __future__ import annotations

import fcntl
import json
import logging
import time
from functools import cache, partial
from statistics import median
from typing import TYPE_CHECKING

import numpy as np
import torch

from optimizer.compiling import (
    INPUT,
    WALKED_ROWS,
    Arithmetic,
    Cast,
    Costs,
    Finite,
    Node,
    Output,
    Program,
    Sigmoid,
    Trees,
    eager_terms,
    fit_costs,
    program_terms,
    scale_kernels,
    shape_of,
)
from udfs.compiling.torch._ahead import learned
from udfs.compiling.torch._engine import Engine
from udfs.compiling.torch._native_code import has_native_code
from udfs.compiling.torch._trees import TreesModule
from udfs.node import NodeCacheError, node_folder, written_once

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["calibrate", "machine_costs"]

_LOGGER = logging.getLogger(__name__)
_VERSION = 3
_FEATURES = 16
_REPEATS = 3
# Trees, depth, and the strategies that are tried on them.
_CASES = (
    (1, 2, ("native",)),
    (16, 2, ("traversal", "perfect", "gemm", "bitvector", "native")),
    (128, 3, ("traversal", "perfect", "gemm", "bitvector", "native")),
    (32, 5, ("traversal", "perfect", "gemm", "bitvector", "native")),
    (128, 6, ("traversal", "perfect", "bitvector", "native")),
    (64, 9, ("traversal", "perfect", "bitvector", "native")),
    (64, 12, ("traversal", "perfect", "native")),
)
_CHUNK = 1024
_ROWS = (1, _CHUNK)
# Programs without trees: of so many operators, for tables of so many rows.
_OPERATORS, _TABLES = (0, 3, 6), (1, 64, 256, 8192)
_INNER_CALLS_S = 2e-4


@cache
def machine_costs() -> Costs:
    """Coefficients of this machine: measured once on a node for each version of torch."""
    try:
        path = node_folder("compiling") / f"costs-{_VERSION}-{torch.__version__}.json"
        known = _read(path.read_text()) if path.exists() else None
        if known is not None:
            return _of_this_node(known)
        with path.with_suffix(".lock").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                return Costs()  # another process measures: two at once would measure each other
            costs = calibrate()
            with written_once(path) as partial:
                partial.write_text(json.dumps(costs.document()))
    except (OSError, NodeCacheError) as error:
        _LOGGER.warning("costs of this machine are not measured: %s", error)
        return Costs()
    return _of_this_node(costs)


def calibrate() -> Costs:
    """Measure trees of a few shapes by each strategy, on one thread, and fit coefficients to that."""
    measured = []
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        draw = np.random.default_rng(0)
        table = torch.from_numpy(draw.random((_CHUNK, _FEATURES), np.float32))
        with torch.inference_mode():
            for count, depth, strategies in _CASES:
                trees = _drawn(count, depth, draw)
                shape = shape_of(trees)
                for strategy in strategies:
                    if strategy == "native" and not has_native_code():
                        continue
                    module = TreesModule(trees, strategy)
                    for rows in _ROWS:
                        spent = _seconds(_call(module, table[:rows]))
                        measured.append((eager_terms(shape, strategy, rows, _CHUNK), spent))
        measured += _programs(draw)
    finally:
        torch.set_num_threads(threads)
    return fit_costs(measured)


def _of_this_node(costs: Costs) -> Costs:
    """Correct what kernels cost by those that the node has built so far; without native code that costs everything."""
    if not has_native_code():
        costs = costs.without_native_code()
    known = learned()
    if not known:
        return costs
    return scale_kernels(costs, median(ratio for ratio, _ in known), median(build_s for _, build_s in known))


def _call(module: TreesModule, rows: torch.Tensor) -> Callable[[], object]:
    """Call trees as a program does: a few rows step down without torch."""
    if module.native is not None and len(rows) <= WALKED_ROWS:
        return partial(module.native.few, rows.numpy())
    return partial(module, rows)


def _programs(draw: np.random.Generator) -> list[tuple[dict[str, float], float]]:
    """Measure programs without trees: what a call takes, and what each operator."""
    measured = []
    for own in _OPERATORS:
        nodes = [Node("held", Finite("float32", nan=False, who="calibrate"), (INPUT,))]
        for number in range(own):
            step = (Cast("float64"), Sigmoid(), Arithmetic("multiply", draw.random(_FEATURES)))[number % 3]
            nodes.append(Node(f"step_{number}", step, (nodes[-1].name,)))
        program = Program(_FEATURES, None, nodes, {"transform": Output(nodes[-1].name)})
        engine = Engine(program)
        for rows in _TABLES:
            table = draw.random((rows, _FEATURES), np.float32)
            measured.append((program_terms(program, rows, engine.chunk), _seconds(partial(engine.run, table))))
    return measured


def _seconds(call: Callable[[], object]) -> float:
    """The least time of a few: of this thread, so that a busy machine is not measured. A short call is repeated."""
    call()
    began = time.thread_time()
    call()
    times = min(max(int(_INNER_CALLS_S / max(time.thread_time() - began, 1e-7)), 1), 100)
    spent = []
    for _ in range(_REPEATS):
        began = time.thread_time()
        for _ in range(times):
            call()
        spent.append((time.thread_time() - began) / times)
    return max(min(spent), 1e-7)


def _drawn(count: int, depth: int, draw: np.random.Generator) -> Trees:
    """Full trees with splits drawn at random."""
    nodes, inner = 2 ** (depth + 1) - 1, 2**depth - 1
    own = np.arange(nodes)
    starts = np.arange(count)[:, None] * nodes
    return Trees.of_nodes(
        feature=draw.integers(0, _FEATURES, count * nodes),
        threshold=draw.random(count * nodes, np.float32),
        left=np.where(own < inner, starts + 2 * own + 1, -1).reshape(-1),
        right=np.where(own < inner, starts + 2 * own + 2, -1).reshape(-1),
        missing_left=np.zeros(count * nodes, np.bool_),
        value=draw.random((count * nodes, 1)),
        root=starts[:, 0],
        target=np.zeros(count, np.int64),
        base=[0.0],
        divisor=1.0,
        features=_FEATURES,
        missing=False,
    )


def _read(text: str) -> Costs | None:
    try:
        return Costs.of_document(json.loads(text))
    except (ValueError, TypeError, AttributeError):
        return None
