"""Memory plan within a running Spark session, whose heap and task slots are fixed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from optimizer.errors import CerebroError
from optimizer.memory._constants import SPARK4
from optimizer.memory._demand import Layout, demand
from optimizer.memory._errors import InfeasiblePlanError
from optimizer.memory._infeasibility import refusal
from optimizer.memory._plan import TransferPlan
from optimizer.memory._sizes import divided, size_tables
from optimizer.memory._spec import ClusterSpec, not_negative
from optimizer.sizes import size

if TYPE_CHECKING:
    from optimizer.memory._apportionment import Join, Persistence
    from optimizer.memory._constants import Constants
    from optimizer.memory._demand import Demand
    from optimizer.memory._logical_names import Logical
    from optimizer.memory._spec import TransferWorkload

__all__ = ["Envelope", "plan_inside"]


@dataclass(frozen=True, slots=True)
class Envelope:
    """Slots and memory with which the executors of a session were started.

    ``heap_bytes`` is the heap of an executor, or of the one JVM if ``local``; it may use ``beside_bytes`` more: the
    container's overhead, or its share of the machine where there is no limit. ``memory_fraction`` is
    ``spark.memory.fraction``. ``driver_heap_bytes`` is 0 where it is unknown, ``gpu_memory_bytes`` 0 without a GPU.

    Raises
    ------
    CerebroError
        No executor, no slot, no heap, or a fraction outside 0 to 1.

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
            raise CerebroError(f"memory_fraction must be above 0 and below 1, got {self.memory_fraction}.")

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
    """Choose partitions, join and persistence within a running session.

    The memory of the operating system is no part of an envelope and is not counted. ``partitions``, ``join`` and
    ``persistence`` are decisions made by hand; ``cores`` of the plan are the session's. Raise InfeasiblePlanError, with
    the part and the missing bytes, if the session's slots, all busy, need more than the session has.

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
    chosen = partitions or tables.partitions(_fed(workload, slots, cluster.nodes), constants)

    def needed(*, broadcast: bool) -> Demand:
        return demand(
            Layout(cluster.nodes, 1, slots),
            chosen or 1,
            broadcast=broadcast,
            tables=tables,
            workload=workload,
            cluster=cluster,
            constants=constants,
        )

    need = needed(broadcast=join == "broadcast")
    if chosen is None or need.partition_bytes >= constants.partition_bytes:
        raise refusal(None if chosen is None else need, tables, cluster, constants, slots)
    if short := _missing(need, envelope, constants):
        name, by = next(iter(short.items()))
        raise InfeasiblePlanError(_message(name, by, need, envelope, constants), name, by, _enough(short, envelope))
    chosen_join: Join = join or "shuffle"
    if join is None and tables.structured_bytes < constants.broadcast_bytes:
        wider = needed(broadcast=True)
        if not _missing(wider, envelope, constants):
            need, chosen_join = wider, "broadcast"
    heap = envelope.heap_bytes
    unified = int((heap - constants.heap_reserved_bytes) * envelope.memory_fraction)
    storage = max(0, min(unified - need.heap_core_bytes, heap - need.heap_fixed_bytes))
    spills = storage < divided(tables.double_bytes, cluster.nodes)
    return TransferPlan(
        cores=slots,
        executors=cluster.nodes,
        executors_per_node=1,
        partitions=need.partitions,
        join=chosen_join,
        persistence=persistence or ("serialized" if spills else "deserialized"),
        logical=logical,
        storage_bytes=storage,
        user_bytes=need.user_bytes + heap - need.heap_fixed_bytes - storage,
        dl_bytes=need.dl_bytes,
        core_bytes=need.core_bytes,
        python_bytes=need.python_bytes,
        os_bytes=0,
        heap_bytes=heap,
        overhead_bytes=min(constants.overhead_min_bytes, envelope.beside_bytes),
        off_heap_bytes=need.off_heap_bytes,
        driver_bytes=need.driver_bytes,
        gpu_bytes=max(0, need.gpu_bytes - 1),
        partition_bytes=need.partition_bytes,
        cached_bytes=tables.double_bytes,
        limited_by="as many as the session was started with",
        memory_bound=False,
        tables=tables,
        workload=workload,
        cluster=cluster,
        constants=constants,
    )


def _fed(workload: TransferWorkload, slots: int, executors: int) -> int:
    """Count the task slots with a batch of the network for each; of the first executor, with a record for each."""
    rows = workload.structured_rows
    return min(slots * executors, max(divided(rows, workload.model.batch_size), min(slots, rows)))


def _beside(need: Demand, constants: Constants) -> int:
    return need.dl_bytes + need.python_bytes + need.off_heap_bytes + constants.overhead_min_bytes


def _heap(need: Demand, constants: Constants) -> int:
    return need.heap_fixed_bytes + constants.granularity_bytes


def _missing(need: Demand, envelope: Envelope, constants: Constants) -> dict[str, int]:
    short = {
        "heap": _heap(need, constants) - envelope.heap_bytes,
        "memory": _beside(need, constants) - envelope.beside_bytes,
        "gpu": need.gpu_bytes - envelope.gpu_memory_bytes,
    }
    if envelope.driver_heap_bytes and not envelope.local:
        short["driver"] = need.driver_bytes - envelope.driver_heap_bytes
    return {name: by for name, by in short.items() if by > 0}


def _message(name: str, by: int, need: Demand, envelope: Envelope, constants: Constants) -> str:
    what = "the session's JVM" if envelope.local else "an executor"
    with_slots = f"with {need.cores} task slots"
    if name == "heap":
        text = f"{what} has a heap of {size(envelope.heap_bytes)} and needs {size(_heap(need, constants))} {with_slots}"
    elif name == "memory":
        text = (
            f"beside its heap {what} may take {size(envelope.beside_bytes)} and needs "
            f"{size(_beside(need, constants))} {with_slots}: networks {size(need.dl_bytes)}, Python workers and "
            f"Arrow batches {size(need.python_bytes)}, the JVM itself {size(constants.overhead_min_bytes)}"
        )
    elif name == "gpu":
        text = (
            f"the GPU has {size(envelope.gpu_memory_bytes)} and the networks need {size(need.gpu_bytes)} {with_slots}"
        )
    else:
        text = f"the driver has a heap of {size(envelope.driver_heap_bytes)} and needs {size(need.driver_bytes)}"
    return f"{text}: {size(by)} short; start Spark by a plan instead: vista_spark.session(plan=...), or `vista plan`"


def _enough(short: dict[str, int], envelope: Envelope) -> ClusterSpec:
    """Raise the executors by what is short; the slots stay."""
    enough = replace(
        envelope,
        heap_bytes=envelope.heap_bytes + short.get("heap", 0),
        beside_bytes=envelope.beside_bytes + short.get("memory", 0),
        driver_heap_bytes=envelope.driver_heap_bytes + short.get("driver", 0),
        gpu_memory_bytes=envelope.gpu_memory_bytes + short.get("gpu", 0),
    )
    return enough.cluster
