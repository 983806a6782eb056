"""Measurement of a model's batches on this machine."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from optimizer.arguments import whole
from optimizer.graph import peak_live_bytes
from optimizer.serving import BatchingProfile, ServingError
from udfs.driver import validate_arguments
from udfs.node import check_device, freed_memory_kept, hardware
from udfs.serving import OpenModels, Row
from vista_spark.errors import InvalidArgumentError
from vista_spark.serving._deployment import opened, sample_row
from vista_spark.serving._model_resolution import fetched
from vista_spark.serving._trunk_grouping import group_recipe

if TYPE_CHECKING:
    from collections.abc import Sequence

    from udfs.serving import OpenGroup
    from vista_spark.serving._deployment import Deployment
    from vista_spark.serving._session import Session

__all__ = ["measured", "profile_batches"]

_BATCHES = (1, 2, 4, 8, 16, 32, 64, 128)
_RUNS = 3

# Seconds after which no larger batch is measured.
_PATIENCE_S = 8.0


@validate_arguments
def profile_batches(
    session: Session, batches: Sequence[int] = (1, 4, 16), *, threads: int = 1, device: str = "cpu"
) -> BatchingProfile:
    """Measure a session's model in this process, as a backend would run it.

    ``Server.deploy`` measures by itself. A profile measured before (``Session(profile=...)``) saves these seconds, and
    lets a driver plan for backends on another kind of machine.

    Parameters
    ----------
    session : Session
        Session with the model to measure.
    batches : sequence of int
        Batch sizes, 1 among them. Plans use no batch larger than the largest.
    threads : int
        CPU threads of a batch. Default 1.
    device : str
        Device that the model runs on. Default ``"cpu"``.

    Returns
    -------
    optimizer.serving.BatchingProfile
        The profile. ``document()`` converts it for JSON, ``BatchingProfile.from_document`` reads it.

    Raises
    ------
    InvalidArgumentError
        A size is below 1, the session has a catalog instead of a model, or :class:`Session` refuses a value.
    optimizer.serving.ServingError
        The sizes do not contain 1.

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
        raise ServingError(f"batches must contain 1, which every plan needs, got {list(batches)}.")
    whole("threads", threads)
    check_device(device)
    if session.catalog is not None:
        raise InvalidArgumentError(
            f"session must have a model, got a catalog in session {session.name!r}. Measure its variants one by "
            "one with Session(model=variant.model)."
        )
    return measured([opened(fetched(session, None))], threads=threads, device=device, batches=sizes)


def measured(
    members: Sequence[Deployment], *, threads: int, device: str, batches: Sequence[int] | None = None
) -> BatchingProfile:
    """Measure a group as a backend runs it, with rows of its members in turn.

    By default batch sizes double until a batch takes longer than the shortest deadline, or 8 seconds are over.
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
    # Other programs can only lengthen a run, so the shortest run is the best estimate.
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
    """Return the bytes of the weights, each network's once, and of the activations of a batch."""
    graphs = {member.network.source.key: member.network.graph for member in members if member.network is not None}
    weights = sum(graph.param_bytes() for graph in graphs.values())
    return weights + batch * max((peak_live_bytes(graph) for graph in graphs.values()), default=0)
