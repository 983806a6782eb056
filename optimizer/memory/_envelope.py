"""A plan within a Spark session that already runs: its heap and its task slots are given, not chosen."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from optimizer.errors import CerebroError

from ._constants import SPARK4
from ._demand import demand
from ._errors import InfeasiblePlanError
from ._explain import size
from ._infeasible import refusal
from ._plan import TransferPlan
from ._sizes import divided, size_tables
from ._spec import ClusterSpec, not_negative

if TYPE_CHECKING:
    from optimizer.logical import Logical

    from ._apportionment import Join, Persistence
    from ._constants import Constants
    from ._demand import Demand
    from ._spec import TransferWorkload

__all__ = ["Envelope", "plan_inside"]


@dataclass(frozen=True, slots=True)
class Envelope:
    """What the executors of a session were started with.

    Parameters
    ----------
    executors : int
    slots : int
        Tasks that an executor runs at a time.
    heap_bytes : int
        Of an executor, or of the one JVM if ``local``.
    beside_bytes : int
        What an executor may take beside its heap: the container's overhead, or its share of the machine where nothing
        limits it.
    memory_fraction : float
        ``spark.memory.fraction``.
    driver_heap_bytes : int
        0 where it is not known.
    gpu_memory_bytes : int
        Of an executor's GPU; 0 where there is none.
    local : bool
        Driver and executor are one JVM.

    Raises
    ------
    CerebroError
        No executor, no slot, no heap, a fraction that is none.

    Examples
    --------
    >>> Envelope(executors=2, slots=4, heap_bytes=4 << 30, beside_bytes=6 << 30).cluster.memory_bytes >> 30
    10
    """

    executors: int
    slots: int
    heap_bytes: int
    beside_bytes: int
    memory_fraction: float = 0.6
    driver_heap_bytes: int = 0
    gpu_memory_bytes: int = 0
    local: bool = False

    def __post_init__(self) -> None:
        not_negative(self, least={"executors": 1, "slots": 1, "heap_bytes": 1})
        if not 0 < self.memory_fraction < 1:
            raise CerebroError(f"memory_fraction={self.memory_fraction}; it is above 0 and below 1")

    @property
    def cluster(self) -> ClusterSpec:
        """The executors as machines of their own."""
        return ClusterSpec(
            1 if self.local else self.executors,
            self.slots,
            self.heap_bytes + self.beside_bytes,
            self.gpu_memory_bytes,
            self.driver_heap_bytes or None,
            self.local,
        )


def plan_inside(
    workload: TransferWorkload,
    envelope: Envelope,
    constants: Constants = SPARK4,
    *,
    logical: Logical = "staged",
    partitions: int | None = None,
    join: Join | None = None,
    persistence: Persistence | None = None,
) -> TransferPlan:
    """Choose what can still be chosen: partitions, join and persistence.

    Parameters
    ----------
    workload : TransferWorkload
    envelope : Envelope
    constants : Constants
        The memory of the operating system is no part of an envelope and is not counted.
    logical : str
        One of :data:`optimizer.logical.LOGICAL_PLANS`.
    partitions, join, persistence : optional
        Decisions made by hand.

    Returns
    -------
    TransferPlan
        Its ``cores`` are the session's.

    Raises
    ------
    InfeasiblePlanError
        The session's slots, all busy, would take more than it was given; the message says which part and by how much.

    Examples
    --------
    >>> from optimizer.memory import LayerSize, ModelFootprint, TransferWorkload
    >>> work = TransferWorkload(1000, 10, (LayerSize("fc7", 16_384),), 14_000, ModelFootprint(10**8, 9 * 10**8))
    >>> plan = plan_inside(work, Envelope(1, 2, heap_bytes=2 << 30, beside_bytes=4 << 30, local=True))
    >>> plan.cores, plan.partitions, plan.join
    (2, 2, 'broadcast')
    """
    constants = replace(constants, os_reserved_bytes=0)
    cluster, slots = envelope.cluster, envelope.slots
    tables = size_tables(workload, logical, constants)
    chosen = partitions or tables.partitions(slots * cluster.nodes, constants)

    def asked(*, broadcast: bool) -> Demand:
        return demand(
            slots,
            chosen or 1,
            broadcast=broadcast,
            tables=tables,
            workload=workload,
            cluster=cluster,
            constants=constants,
        )

    found = asked(broadcast=join == "broadcast")
    if chosen is None or found.partition_bytes >= constants.partition_bytes:
        raise refusal(None if chosen is None else found, tables, cluster, constants, slots)
    if short := _missing(found, envelope, constants):
        name, by = next(iter(short.items()))
        raise InfeasiblePlanError(_words(name, by, found, envelope, constants), name, by, _enough(short, envelope))
    picked: Join = join or "shuffle"
    if join is None and tables.structured_bytes < constants.broadcast_bytes:
        wider = asked(broadcast=True)
        if not _missing(wider, envelope, constants):
            found, picked = wider, "broadcast"
    heap = envelope.heap_bytes
    unified = int((heap - constants.heap_reserved_bytes) * envelope.memory_fraction)
    storage = max(0, min(unified - found.heap_core_bytes, heap - found.heap_fixed_bytes))
    spills = storage < divided(tables.double_bytes, cluster.nodes)
    return TransferPlan(
        cores=slots,
        partitions=found.partitions,
        join=picked,
        persistence=persistence or ("serialized" if spills else "deserialized"),
        logical=logical,
        storage_bytes=storage,
        user_bytes=found.user_bytes + heap - found.heap_fixed_bytes - storage,
        dl_bytes=found.dl_bytes,
        core_bytes=found.core_bytes,
        python_bytes=found.python_bytes,
        os_bytes=0,
        heap_bytes=heap,
        overhead_bytes=min(constants.overhead_min_bytes, envelope.beside_bytes),
        off_heap_bytes=found.off_heap_bytes,
        driver_bytes=found.driver_bytes,
        gpu_bytes=max(0, found.gpu_bytes - 1),
        partition_bytes=found.partition_bytes,
        cached_bytes=tables.double_bytes,
        limited_by="as many as the session was started with",
        tables=tables,
        workload=workload,
        cluster=cluster,
        constants=constants,
    )


def _beside(found: Demand, constants: Constants) -> int:
    return found.dl_bytes + found.python_bytes + found.off_heap_bytes + constants.overhead_min_bytes


def _heap(found: Demand, constants: Constants) -> int:
    return found.heap_fixed_bytes + constants.granularity_bytes


def _missing(found: Demand, envelope: Envelope, constants: Constants) -> dict[str, int]:
    short = {
        "heap": _heap(found, constants) - envelope.heap_bytes,
        "memory": _beside(found, constants) - envelope.beside_bytes,
        "gpu": found.gpu_bytes - envelope.gpu_memory_bytes,
    }
    if envelope.driver_heap_bytes and not envelope.local:
        short["driver"] = found.driver_bytes - envelope.driver_heap_bytes
    return {name: by for name, by in short.items() if by > 0}


def _words(name: str, by: int, found: Demand, envelope: Envelope, constants: Constants) -> str:
    what = "the session's JVM" if envelope.local else "an executor"
    with_slots = f"with {found.cores} task slots"
    if name == "heap":
        said = (
            f"{what} has a heap of {size(envelope.heap_bytes)} and needs {size(_heap(found, constants))} {with_slots}"
        )
    elif name == "memory":
        said = (
            f"beside its heap {what} may take {size(envelope.beside_bytes)} and needs "
            f"{size(_beside(found, constants))} {with_slots}: networks {size(found.dl_bytes)}, Python workers and "
            f"Arrow batches {size(found.python_bytes)}, the JVM itself {size(constants.overhead_min_bytes)}"
        )
    elif name == "gpu":
        said = (
            f"the GPU has {size(envelope.gpu_memory_bytes)} and the networks need {size(found.gpu_bytes)} {with_slots}"
        )
    else:
        said = f"the driver has a heap of {size(envelope.driver_heap_bytes)} and needs {size(found.driver_bytes)}"
    return f"{said}: {by} bytes short; start Spark by a plan instead: vista_spark.session(plan=...), or `vista plan`"


def _enough(short: dict[str, int], envelope: Envelope) -> ClusterSpec:
    """The executors with what is short added, slots as they are."""
    enough = replace(
        envelope,
        heap_bytes=envelope.heap_bytes + short.get("heap", 0),
        beside_bytes=envelope.beside_bytes + short.get("memory", 0),
        driver_heap_bytes=envelope.driver_heap_bytes + short.get("driver", 0),
        gpu_memory_bytes=envelope.gpu_memory_bytes + short.get("gpu", 0),
    )
    return enough.cluster
