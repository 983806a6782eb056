"""Vista's optimizer (Algorithm 1): the largest number of cores that meets every constraint."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, get_args

from optimizer.errors import CerebroError, nearest
from optimizer.logical import LOGICAL_PLANS

from ._apportionment import Join, Persistence
from ._constants import SPARK4, Constants
from ._demand import Demand, demand, heap_for, overhead, rounded
from ._explain import size
from ._infeasible import missing, refusal
from ._plan import TransferPlan
from ._sizes import Tables, divided, size_tables

if TYPE_CHECKING:
    from optimizer.logical import Logical

    from ._spec import ClusterSpec, TransferWorkload

__all__ = ["plan_transfer"]

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
    stay below the node's memory.

    Parameters
    ----------
    workload : TransferWorkload
    cluster : ClusterSpec
    constants : Constants
        The mapping to memory; :data:`PAPER` is the published setting.
    logical : str
        One of :data:`optimizer.logical.LOGICAL_PLANS`; :func:`optimizer.transfer.choose_transfer` compares them.
    cores, partitions, join, persistence : optional
        Decisions made by hand; the others follow from them.

    Returns
    -------
    TransferPlan

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
            raise CerebroError(f"{name}={number}: at least 1")
    tables = size_tables(workload, logical, constants)
    return _Search(workload, cluster, constants, logical, tables, cores, partitions, join, persistence).plan()


def _check(name: str, value: str | None, known: tuple[str | None, ...]) -> None:
    if value not in known:
        names = [choice for choice in known if choice is not None]
        raise CerebroError(f"{name}={value!r}{nearest(str(value), names)}; there are {', '.join(names)}")


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
        if self.cores is None:
            tried = range(limit, 0, -1)
        else:
            tried = range(self.cores, self.cores - 1 if self.cores <= limit else self.cores, -1)
        above: Demand | None = None
        for cores in tried:
            need = self._demand(cores, broadcast=self.join == "broadcast")
            if need is None or need.partition_bytes >= self.constants.partition_bytes:
                break
            if not missing(need, self.cluster):
                return self._settle(need, self._reason(above))
            above = need
        least = self._demand(self.cores or 1, broadcast=self.join == "broadcast")
        raise refusal(least, self.tables, self.cluster, self.constants, limit)

    def _demand(self, cores: int, *, broadcast: bool) -> Demand | None:
        """Compute the demand; ``None`` where a record is too large for a partition, whatever the number of cores."""
        partitions = self.tables.partitions(cores * self.cluster.nodes, self.constants)
        if partitions is None:
            return None
        return demand(
            cores,
            self.partitions or partitions,
            broadcast=broadcast,
            tables=self.tables,
            workload=self.workload,
            cluster=self.cluster,
            constants=self.constants,
        )

    def _settle(self, need: Demand, limited_by: str) -> TransferPlan:
        join: Join = self.join or "shuffle"
        if self.join is None and self.tables.structured_bytes < self.constants.broadcast_bytes:
            wider = self._demand(need.cores, broadcast=True)
            if wider is not None and not missing(wider, self.cluster):
                need, join = wider, "broadcast"
        heap = need.heap_bytes(self.cluster.memory_bytes, self.constants)
        cached = self.tables.double_bytes
        per_node = divided(cached, self.cluster.nodes)
        if self.constants.storage_as_needed:
            wanted = rounded(max(1, per_node), self.constants)
            heap = min(heap, heap_for(wanted, need.heap_fixed_bytes, need.heap_core_bytes, self.constants))
        storage = need.storage_bytes(heap, self.constants)
        spills = storage < (per_node if self.constants.spill_per_node else cached)
        persistence = self.persistence or ("serialized" if spills else "deserialized")
        return TransferPlan(
            cores=need.cores,
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
            tables=self.tables,
            workload=self.workload,
            cluster=self.cluster,
            constants=self.constants,
        )

    def _reason(self, above: Demand | None) -> str:
        if self.cores is not None:
            return "set by hand"
        if above is None:
            reserved = self.constants.cores_reserved
            note = f", {reserved} reserved for the operating system" if reserved else ""
            return f"the most that {self.cluster.cores} cores allow (at most {self.constants.cores_max}{note})"
        name, by = next(iter(missing(above, self.cluster).items()))
        return f"with {above.cores}, {_SHORT[name]} would be {size(by)} short"
