"""Measurement of a session's steps and of exchanges between workers."""

from __future__ import annotations

import json
import statistics
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from optimizer.hybrids import Measured
from udfs.hybrids._shard_rows import gather_rows
from udfs.training import Diverged, batch_weights

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from udfs.gang import Gang
    from udfs.hybrids._shard_rows import ShardRows

__all__ = ["measure"]

# Repetitions after the first, which allocates memory.
_TIMES = 4


def measure(session: Any, gang: Gang, shards: Sequence[ShardRows]) -> Measured:
    """Measure steps on a whole batch and on a worker's share of it, and all-reduces of gradients and of one number.

    Rank 0 takes the steps on a whole batch alone, as in hopping with idle workers; all ranks take those on shares at
    the same time. The session is at its checkpoint again afterwards.
    """
    state, random = session.checkpoint(), session.random
    batch = session.trainer.batch_size
    share = max(1, batch // gang.size)
    session.begin()
    try:
        alone = _step_s(session, shards, batch) if gang.rank == 0 else 0.0
        gang.all_gather(b"")
        shared = _step_s(session, shards, share)
        gradients = [each.detach().clone() for each in session.model.parameters() if each.requires_grad]
        gang.all_gather(b"")
        exchange = _median_s(lambda: gang.mean_(gradients, 1.0, total=float(gang.size)))
        latency = _median_s(lambda: gang.mean_(gradients[0].reshape(-1)[:1].clone().unbind(), 1.0, total=1.0))
    finally:
        session.end(ends_epoch=False)
        session.restore(state)
        session.random = random
    texts = gang.all_gather(json.dumps([alone, shared, exchange, latency]).encode())
    alone, shared, exchange, latency = np.max([json.loads(text) for text in texts], axis=0).tolist()
    nbytes = sum(each.numel() * each.element_size() for each in gradients)
    # Shorter than a message of one number is noise.
    return Measured(
        batch, share, alone, shared, nbytes, len(state), max(exchange, latency * 1.01), latency, max(2, gang.size)
    )


def _step_s(session: Any, shards: Sequence[ShardRows], size: int) -> float:
    """Return the median seconds of a step on ``size`` rows; rows of a small shard are repeated."""
    picked = [np.resize(shards[0].order, size), *[np.empty(0, np.int64) for _ in shards[1:]]]

    def step() -> None:
        rows = gather_rows(shards, picked)
        with suppress(Diverged):  # the training itself will say so
            session.step(rows.inputs, rows.labels, batch_weights(rows, slice(0, size), size))

    return _median_s(step)


def _median_s(function: Callable[[], object]) -> float:
    seconds = []
    for _ in range(1 + _TIMES):
        begun = time.perf_counter()
        function()
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        seconds.append(time.perf_counter() - begun)
    return statistics.median(seconds[1:])
