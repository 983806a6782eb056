"""What a batch takes on this machine, measured when a session is deployed, or before."""

from __future__ import annotations

import os
import platform
import time
from pathlib import Path
from typing import TYPE_CHECKING

from optimizer.arguments import whole
from optimizer.graph import peak_live_bytes
from optimizer.serving import BatchingProfile, ServingError
from udfs.node import check_device, freed_memory_kept
from udfs.serving import OpenModels, Row
from vista_spark.serving._deployment import opened, sample_row
from vista_spark.serving._grouping import group_recipe
from vista_spark.serving._registry import fetched

if TYPE_CHECKING:
    from collections.abc import Sequence

    from udfs.serving import OpenGroup
    from vista_spark.serving._deployment import Deployment
    from vista_spark.serving._session import Session

__all__ = ["hardware", "measured", "profile_batches"]

_BATCHES = (1, 2, 4, 8, 16, 32, 64, 128)
_RUNS = 3

# Seconds for the batches after the first.
_PATIENCE_S = 8.0


def profile_batches(
    session: Session, batches: Sequence[int] = (1, 4, 16), *, threads: int = 1, device: str = "cpu"
) -> BatchingProfile:
    """Measure a session's model in this process, as a backend would run it.

    ``Server.deploy`` does this by itself; a profile from before (``Session(profile=...)``) saves its seconds, and lets
    a driver plan for backends of another machine.

    Parameters
    ----------
    session : Session
    batches : sequence of int
        Sizes of batches, with 1 among them; plans use nothing beyond the largest.
    threads : int
        As of the server. Default 1.
    device : str
        Default ``"cpu"``.

    Returns
    -------
    optimizer.serving.BatchingProfile
        ``document()`` writes it for JSON, ``BatchingProfile.from_document`` reads it.

    Raises
    ------
    InvalidArgumentError
        A size below 1, or what :class:`Session` refuses.
    optimizer.serving.ServingError
        1 is not among the sizes.

    Examples
    --------
    >>> from udfs.serving import TensorSpec
    >>> from vista_spark.serving import Session
    >>> inputs = [TensorSpec("x", "float32", (-1, 2))]
    >>> profile = profile_batches(Session("double", model=lambda x: {"y": 2 * x["x"]}, inputs=inputs), [1, 8])
    >>> profile.max_batch, profile.threads
    (8, 1)
    """
    sizes = sorted({whole("batches", batch) for batch in batches})
    if sizes[:1] != [1]:
        raise ServingError(f"batches={list(batches)}: measure 1 too, no plan can do without the latency of one request")
    whole("threads", threads)
    check_device(device)
    return measured([opened(fetched(session, None))], threads=threads, device=device, batches=sizes)


def measured(
    members: Sequence[Deployment], *, threads: int, device: str, batches: Sequence[int] | None = None
) -> BatchingProfile:
    """Measure a group as a backend runs it: batches of different rows, of the members in turn.

    By default batches are doubled until one takes longer than the shortest deadline, which no plan allows, or some
    seconds are over.

    Parameters
    ----------
    members : sequence of Deployment
    threads : int
    device : str
    batches : sequence of int, optional
        Sizes to measure, all of them.
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
        for batch in batches or _BATCHES:
            rows = [Row(sessions[place % len(sessions)], "", arrays) for place in range(batch)]
            group.run(rows)
            samples[batch] = [_milliseconds(group, rows) for _ in range(_RUNS)]
            over = min(samples[batch]) > limit or time.perf_counter() - started > _PATIENCE_S
            if over and batches is None:
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
