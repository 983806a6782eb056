"""What trees cost on this machine: a second of measurements, kept on the node."""

from __future__ import annotations

import fcntl
import json
import logging
import math
import time
from dataclasses import replace
from functools import cache
from statistics import median
from typing import TYPE_CHECKING

import numpy as np
import torch

from optimizer.compiling import Costs, Trees, eager_terms, fit_costs, scale_kernels, shape_of
from udfs.compiling.torch._ahead import learned
from udfs.compiling.torch._native_code import has_native_code
from udfs.compiling.torch._trees import TreesModule
from udfs.node import NodeCacheError, node_folder, written_once

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["calibrate", "machine_costs"]

_LOGGER = logging.getLogger(__name__)
_VERSION = 2
_FEATURES = 16
_REPEATS = 3
# Trees, depth, and the strategies that are tried on them.
_CASES = (
    (16, 2, ("traversal", "perfect", "gemm", "bitvector", "native")),
    (128, 3, ("traversal", "perfect", "gemm", "bitvector", "native")),
    (32, 5, ("traversal", "perfect", "gemm", "bitvector", "native")),
    (128, 6, ("traversal", "perfect", "bitvector", "native")),
    (64, 9, ("traversal", "perfect", "bitvector", "native")),
    (64, 12, ("traversal", "perfect", "native")),
)
_CHUNK = 1024
_ROWS = (1, _CHUNK)


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
                        spent = _seconds(module, table[:rows])
                        measured.append((eager_terms(shape, strategy, rows, _CHUNK), spent))
    finally:
        torch.set_num_threads(threads)
    return fit_costs(measured)


def _of_this_node(costs: Costs) -> Costs:
    """Correct what kernels cost by those that the node has built so far; without native code that costs everything."""
    if not has_native_code():
        costs = replace(costs, native_call_s=math.inf)
    known = learned()
    if not known:
        return costs
    return scale_kernels(costs, median(ratio for ratio, _ in known), median(build_s for _, build_s in known))


def _seconds(module: Callable[[torch.Tensor], torch.Tensor], rows: torch.Tensor) -> float:
    """The least time of a few: of this thread, so that a busy machine is not measured."""
    spent = []
    for _ in range(_REPEATS + 1):
        began = time.thread_time()
        module(rows)
        spent.append(time.thread_time() - began)
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
