"""What a batch takes on this machine, measured on the driver when a session is deployed."""

from __future__ import annotations

import os
import platform
import time
from pathlib import Path
from typing import TYPE_CHECKING

from optimizer.graph import peak_live_bytes
from optimizer.serving import BatchingProfile
from udfs.node import freed_memory_kept
from udfs.serving import OpenModels, Row
from vista_spark.serving._deployment import sample_row
from vista_spark.serving._grouping import group_recipe

if TYPE_CHECKING:
    from collections.abc import Sequence

    from udfs.serving import OpenGroup
    from vista_spark.serving._deployment import Deployment

__all__ = ["hardware", "measured"]

_BATCHES = (1, 2, 4, 8, 16, 32, 64, 128)
_RUNS = 3

# Seconds for the batches after the first.
_PATIENCE_S = 8.0


def measured(members: Sequence[Deployment], *, threads: int, device: str) -> BatchingProfile:
    """Measure a group as a backend runs it: batches of different rows, of the members in turn.

    Batches are doubled until one takes longer than the shortest deadline, which no plan allows, or some seconds are
    over.

    Parameters
    ----------
    members : sequence of Deployment
    threads : int
    device : str
    """
    limit = min(member.session.slo_ms for member in members)
    networks = {member.network.source.key: member.network.traced for member in members if member.network is not None}
    models = OpenModels(device, threads, networks if device == "cpu" else None)
    group = models.open(group_recipe(members))
    sessions = [member.session.name for member in members]
    sample = sample_row(members[0])
    began = time.perf_counter()
    arrays = [group.readers[sessions[0]].read(sample) for _ in range(_RUNS)][-1]
    reading = 1000 * (time.perf_counter() - began) / _RUNS
    samples: dict[int, list[float]] = {}
    started = time.perf_counter()
    with freed_memory_kept():
        for batch in _BATCHES:
            rows = [Row(sessions[place % len(sessions)], "", arrays) for place in range(batch)]
            group.run(rows)
            samples[batch] = [_milliseconds(group, rows) for _ in range(_RUNS)]
            if min(samples[batch]) > limit or time.perf_counter() - started > _PATIENCE_S:
                break
    # Another program that ran meanwhile makes a run longer, and nothing makes one shorter.
    best = {batch: min(runs) for batch, runs in samples.items()}
    return BatchingProfile(
        best,
        memory_bytes={batch: _bytes(members, batch) for batch in best},
        preprocess_ms=reading if networks else 0.0,
        hardware=hardware(),
        threads=threads,
    )


def _milliseconds(group: OpenGroup, rows: Sequence[Row]) -> float:
    began = time.perf_counter()
    group.run(rows)
    return 1000 * (time.perf_counter() - began)


def _bytes(members: Sequence[Deployment], batch: int) -> int:
    """Compute the bytes of weights, each network's once, and of the activations of a batch."""
    graphs = {member.network.source.key: member.network.graph for member in members if member.network is not None}
    weights = sum(graph.param_bytes() for graph in graphs.values())
    return weights + batch * max((peak_live_bytes(graph) for graph in graphs.values()), default=0)


def hardware() -> str:
    """Name this machine's processor."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return f"{models[0] if models else platform.machine()}, {os.cpu_count()} cores"
