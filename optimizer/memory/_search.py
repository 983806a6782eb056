"""Vista's optimizer (Algorithm 1): the largest number of cores that meets every constraint."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, get_args

from optimizer.arguments import choice_error
from optimizer.errors import CerebroError
from optimizer.memory._apportionment import Join, Persistence
from optimizer.memory._constants import SPARK4, Constants
from optimizer.memory._demand import Demand, Layout, demand, heap_for, overhead, rounded
from optimizer.memory._infeasibility import lacking, missing, refusal
from optimizer.memory._logical_names import LOGICAL_PLANS
from optimizer.memory._plan import TransferPlan
from optimizer.memory._sizes import Tables, divided, size_tables
from optimizer.sizes import size

if TYPE_CHECKING:
    from optimizer.memory._logical_names import Logical
    from optimizer.memory._spec import ClusterSpec, TransferWorkload

__all__ = ["plan_transfer"]

# Executors are alike, so that a remainder of a node's cores may lie idle.
_NEARLY = 7 / 8

_SHORT = {"memory": "a node's memory", "gpu": "its GPU's memory", "driver": "the driver's machine"}


def plan_transfer(
    workload: TransferWorkload,
    cluster: ClusterSpec,
    constants: Constants = SPARK4,
    *,
    logical: Logical = "staged",
    cores: int | None = None,
    partitions: int | None = None,
    join: Join | None = None,
    persistence: Persistence | None = None,
) -> TransferPlan:
    """Choose the largest number of cores that meets every constraint, and what follows from it (Algorithm 1).

    Equations 5 to 15. Equation 12 is read as a sum: reserved, DL execution, User, Core and Storage Memory together
    stay below the node's memory. Where a node has more memory than a heap of ``Constants.heap_max_bytes`` can use,
    several executors share it; the data bounds their number (``Constants.slots_by_data``).

    Parameters
    ----------
    constants : Constants
        The mapping to memory; :data:`PAPER` is the published setting.
    logical : str
        One of :data:`LOGICAL_PLANS`; :func:`optimizer.transfer.choose_transfer` compares them.
    cores, partitions, join, persistence : optional
        Decisions made by hand; the others follow from them. ``cores`` are those of one executor.

    Raises
    ------
    CerebroError
        An unknown value of a decision made by hand.
    InfeasiblePlanError
        No number of cores meets every constraint; it says which, by how much, and the smallest machines that would.

    Examples
    --------
    >>> from optimizer.memory import PAPER, ClusterSpec, Downstream, LayerSize, ModelFootprint, TransferWorkload
    >>> foods = TransferWorkload(
    ...     structured_rows=20_000,
    ...     structured_features=130,
    ...     layers=(LayerSize("fc6", 4 * 4096), LayerSize("fc7", 4 * 4096), LayerSize("fc8", 4 * 1000)),
    ...     image_bytes=14_000,
    ...     model=ModelFootprint(serialized_bytes=600_000_000, runtime_bytes=5_500_000_000),
    ...     downstream=Downstream.logistic_regression(),
    ...     image_tensor_bytes=4 * 227 * 227 * 3,
    ... )
    >>> plan = plan_transfer(foods, ClusterSpec(nodes=8, cores=8, memory_bytes=32_000_000_000), PAPER)
    >>> plan.cores, plan.partitions, plan.join
    (4, 160, 'broadcast')
    """
    _check("logical", logical, LOGICAL_PLANS)
    _check("join", join, (None, *get_args(Join)))
    _check("persistence", persistence, (None, *get_args(Persistence)))
    for name, number in (("cores", cores), ("partitions", partitions)):
        if number is not None and number < 1:
            raise CerebroError(f"{name} must be a positive integer, got {number}.")
    tables = size_tables(workload, logical, constants)
    return _Search(workload, cluster, constants, logical, tables, cores, partitions, join, persistence).plan()


def _check(name: str, value: str | None, known: tuple[str | None, ...]) -> None:
    if value not in known:
        names = [choice for choice in known if choice is not None]
        raise CerebroError(choice_error(name, value, names))


@dataclass(frozen=True, slots=True)
class _Search:
    workload: TransferWorkload
    cluster: ClusterSpec
    constants: Constants
    logical: Logical
    tables: Tables
    cores: int | None
    partitions: int | None
    join: Join | None
    persistence: Persistence | None

    def plan(self) -> TransferPlan:
        limit = min(self.cluster.cores, self.constants.cores_max) - self.constants.cores_reserved
        need, above = self._largest(1, self.constants.heap_max_bytes)
        if need is None and self.constants.heap_max_bytes:
            # One task may need a heap that is larger than is good for it.
            need, above = self._largest(1, 0)
        if need is None:
            raise refusal(self._least(limit), self.tables, self.cluster, self.constants, limit)
        if self._splits(need):
            need = self._divided(need)
        return self._settle(need, self._reason(need, above, limit), memory_bound=above is not None)

    def _least(self, limit: int) -> Demand | None:
        """Compute the demand that is met by the smallest machines, ``None`` where a record is too large.

        That is nearly always the one with a single core. With several cores, though, the same data feeds fewer
        executors, whose partitions may be smaller.
        """
        tried = [self.cores] if self.cores is not None else range(1, max(limit, 1) + 1)
        needs = [self._demand(self._layout(1, cores), broadcast=self.join == "broadcast") for cores in tried]
        fitting = [need for need in needs if need and need.partition_bytes < self.constants.partition_bytes]
        return min(fitting, key=lambda need: lacking(need, self.cluster), default=needs[0])

    def _layout(self, per_node: int, cores: int) -> Layout:
        """Lay out executors of ``cores`` task slots: on every node, or as many as the data feeds."""
        executors = self.cluster.nodes * per_node
        if self.constants.slots_by_data and self.cores is None:
            executors = min(executors, max(1, self._fed // cores))
        return Layout(executors, per_node, cores)

    @property
    def _fed(self) -> int:
        """Task slots that the data has a batch of the network for; one's own machine has a record for each."""
        rows = self.workload.structured_rows
        return rows if self.cluster.local else divided(rows, self.workload.model.batch_size)

    def _largest(self, per_node: int, heap_max: int) -> tuple[Demand | None, Demand | None]:
        """Find the most cores of an executor that fit, and the demand of one more, which does not.

        The demands are ``None`` where none fit, and where memory is not what keeps it from one more.
        """
        reserved = self.constants.cores_reserved
        most = min((self.cluster.cores - reserved) // per_node, self.constants.cores_max - reserved)
        if self.cores is not None:
            tried = range(self.cores, self.cores - 1 if self.cores <= most else self.cores, -1)
        elif self.constants.slots_by_data:
            tried = range(min(most, self._fed), 0, -1)
        else:
            tried = range(most, 0, -1)
        above: Demand | None = None
        for cores in tried:
            need = self._demand(self._layout(per_node, cores), broadcast=self.join == "broadcast")
            if need is None or need.partition_bytes >= self.constants.partition_bytes:
                break
            if not missing(need, self.cluster) and not 0 < heap_max < need.heap_least_bytes:
                return need, above
            above = need
        return None, above

    def _splits(self, need: Demand) -> bool:
        """Return whether one executor per node leaves memory unused; a GPU and a local JVM have one executor."""
        if self.cluster.local or need.gpu_bytes or not self.constants.heap_max_bytes:
            return False
        idle = self.cluster.cores > self.constants.cores_max
        return idle or self._heap(need, bounded=False) > self._heap(need)

    def _divided(self, whole: Demand) -> Demand:
        """Choose the number of executors per node with which neither cores nor memory lie idle."""
        tried = [whole]
        for per_node in range(2, self.cluster.cores + 1):
            need, _ = self._largest(per_node, self.constants.heap_max_bytes)
            if need is not None:
                tried.append(need)
        most = max(need.layout.node_slots for need in tried)
        return max((need for need in tried if need.layout.node_slots >= _NEARLY * most), key=self._used)

    def _used(self, need: Demand) -> tuple[int, int]:
        """Rate a layout by a node's slots times its storage; among equals the fewest JVMs."""
        per_node = need.layout.per_node
        storage = per_node * need.storage_bytes(self._heap(need), self.constants)
        return need.layout.node_slots * storage, -per_node

    def _heap(self, need: Demand, *, bounded: bool = True) -> int:
        heap = need.heap_bytes(self.cluster.memory_bytes, self.constants)
        if self.constants.storage_as_needed:
            wanted = rounded(max(1, divided(self.tables.double_bytes, need.layout.executors)), self.constants)
            heap = min(heap, heap_for(wanted, need.heap_fixed_bytes, need.heap_core_bytes, self.constants))
        most = self.constants.heap_max_bytes
        return min(heap, max(most, need.heap_least_bytes)) if bounded and most else heap

    def _demand(self, layout: Layout, *, broadcast: bool) -> Demand | None:
        """Compute the demand; ``None`` where a record is too large for a partition, whatever the number of cores."""
        partitions = self.tables.partitions(layout.slots, self.constants)
        if partitions is None:
            return None
        return demand(
            layout,
            self.partitions or partitions,
            broadcast=broadcast,
            tables=self.tables,
            workload=self.workload,
            cluster=self.cluster,
            constants=self.constants,
        )

    def _settle(self, need: Demand, limited_by: str, *, memory_bound: bool) -> TransferPlan:
        join: Join = self.join or "shuffle"
        if self.join is None and self.tables.structured_bytes < self.constants.broadcast_bytes:
            wider = self._demand(need.layout, broadcast=True)
            if wider is not None and not missing(wider, self.cluster) and self._same_heap(need, wider):
                need, join = wider, "broadcast"
        heap = self._heap(need)
        cached = self.tables.double_bytes
        share = divided(cached, need.layout.executors)
        storage = need.storage_bytes(heap, self.constants)
        spills = storage < (share if self.constants.spill_per_node else cached)
        persistence = self.persistence or ("serialized" if spills else "deserialized")
        return TransferPlan(
            cores=need.cores,
            executors=need.layout.executors,
            executors_per_node=need.layout.per_node,
            partitions=need.partitions,
            join=join,
            persistence=persistence,
            logical=self.logical,
            storage_bytes=storage,
            user_bytes=need.user_bytes + heap - need.heap_fixed_bytes - storage,
            dl_bytes=need.dl_bytes,
            core_bytes=need.core_bytes,
            python_bytes=need.python_bytes,
            os_bytes=need.os_bytes,
            heap_bytes=heap,
            overhead_bytes=overhead(heap, self.constants),
            off_heap_bytes=need.off_heap_bytes,
            driver_bytes=need.driver_bytes,
            gpu_bytes=max(0, need.gpu_bytes - 1),
            partition_bytes=need.partition_bytes,
            cached_bytes=cached,
            limited_by=limited_by,
            memory_bound=memory_bound,
            tables=self.tables,
            workload=self.workload,
            cluster=self.cluster,
            constants=self.constants,
        )

    def _same_heap(self, need: Demand, wider: Demand) -> bool:
        """Return whether a broadcast fits into the heap of the plan without it."""
        return wider.heap_least_bytes <= max(self.constants.heap_max_bytes or wider.heap_least_bytes, self._heap(need))

    def _reason(self, need: Demand, above: Demand | None, limit: int) -> str:
        if self.cores is not None:
            return "set by hand"
        if need.layout.per_node > 1:
            heap = size(self.constants.heap_max_bytes)
            return f"{need.layout.per_node} executors share a node, with heaps of {heap} at most"
        if above is None and need.cores < limit and need.cores == self._fed:
            return f"{self.workload.structured_rows} rows feed no more"
        if above is None:
            reserved = self.constants.cores_reserved
            note = f", {reserved} reserved for the operating system" if reserved else ""
            return f"the most that {self.cluster.cores} cores allow (at most {self.constants.cores_max}{note})"
        short = missing(above, self.cluster)
        if not short:
            return f"with {above.cores}, a heap would exceed {size(self.constants.heap_max_bytes)}"
        name, by = next(iter(short.items()))
        return f"with {above.cores}, {_SHORT[name]} would be {size(by)} short"
