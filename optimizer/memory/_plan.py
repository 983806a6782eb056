"""Vista's optimizer (Algorithm 1): cores, partitions, join, persistence and memory regions of a feature transfer."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, get_args

from optimizer.errors import CerebroError, InfeasiblePlanError, nearest
from optimizer.logical import LOGICAL_PLANS

from . import _explain, _spark
from ._constants import SPARK4, Constants
from ._demand import Demand, demand
from ._sizes import Tables, divided, size_tables

if TYPE_CHECKING:
    from optimizer.logical import Logical

    from ._spec import ClusterSpec, TransferWorkload

__all__ = ["Join", "Persistence", "TransferPlan", "plan_transfer"]

Join = Literal["broadcast", "shuffle"]
Persistence = Literal["deserialized", "serialized"]


@dataclass(frozen=True, slots=True)
class TransferPlan:
    """The decisions, and the bytes of one worker node that each region is given. Made by :func:`plan_transfer`.

    Attributes
    ----------
    cores : int
        Task slots of an executor (``cpu``).
    partitions : int
        Of the intermediate tables (``n_p``).
    join : {"broadcast", "shuffle"}
    persistence : {"deserialized", "serialized"}
        Format of cached tables.
    logical : {"staged", "lazy", "eager"}
    storage_bytes, user_bytes, core_bytes : int
        Storage, User and Core Memory.
    dl_bytes : int
        DL Execution Memory: networks, and a downstream model that a framework trains.
    python_bytes : int
        Python workers before they load a model, and Arrow batches.
    os_bytes : int
        Left to the operating system.
    heap_bytes : int
        The executor's heap: what Spark sets aside, User, Core and Storage Memory, and the driver's if ``local``.
    overhead_bytes : int
        What the JVM takes beside its heap.
    off_heap_bytes : int
        Core Memory, if that is outside the heap.
    driver_bytes : int
        The driver's heap; 0 where it was left out.
    gpu_bytes : int
        Of the node's GPU.
    partition_bytes : int
        The largest partition.
    cached_bytes : int
        The most that is cached at once, over the cluster (``s_double``).
    limited_by : str
        Why it is not one core more.
    tables : Tables
    workload : TransferWorkload
    cluster : ClusterSpec
    constants : Constants
    """

    cores: int
    partitions: int
    join: Join
    persistence: Persistence
    logical: Logical
    storage_bytes: int
    user_bytes: int
    dl_bytes: int
    core_bytes: int
    python_bytes: int
    os_bytes: int
    heap_bytes: int
    overhead_bytes: int
    off_heap_bytes: int
    driver_bytes: int
    gpu_bytes: int
    partition_bytes: int
    cached_bytes: int
    limited_by: str
    tables: Tables
    workload: TransferWorkload
    cluster: ClusterSpec
    constants: Constants

    @property
    def system_bytes(self) -> int:
        """All regions of a worker node together: never above its memory (equation 12)."""
        outside = self.dl_bytes + self.python_bytes + self.overhead_bytes + self.off_heap_bytes
        return self.os_bytes + outside + self.heap_bytes

    @property
    def peak_bytes(self) -> int:
        """What Spark's processes on a worker node are expected to hold at most: storage no fuller than the tables are."""
        cached = divided(self.cached_bytes, self.cluster.nodes)
        return self.system_bytes - self.os_bytes - max(0, self.storage_bytes - cached)

    def explain(self) -> str:
        """The decisions in words, each with its reason.

        Returns
        -------
        str
            Several lines, without a newline at the end.
        """
        return _explain.explain(self)

    def to_spark_conf(self) -> dict[str, str]:
        """The configuration that gives Spark these regions.

        Returns
        -------
        dict of str to str
            What has to be set before the session starts, and the settings of SQL. Memory is in whole MiB, and the
            heap and all that is beside it together never exceed the node's memory.
        """
        return _spark.to_spark_conf(self)


def plan_transfer(
    workload: TransferWorkload,
    cluster: ClusterSpec,
    constants: Constants = SPARK4,
    *,
    logical: Logical | Literal["auto"] = "auto",
    cores: int | None = None,
    partitions: int | None = None,
    join: Join | None = None,
    persistence: Persistence | None = None,
) -> TransferPlan:
    """Choose the largest number of cores that meets every constraint, and what follows from it (Algorithm 1).

    Equations 5 to 15. Equation 12 is read as the sum that it is meant to be: reserved, DL execution, User, Core and
    Storage Memory stay below the node's memory.

    Parameters
    ----------
    workload : TransferWorkload
    cluster : ClusterSpec
    constants : Constants
        The mapping to memory; :data:`PAPER` is the published setting.
    logical : {"auto", "staged", "lazy", "eager"}
        ``"auto"`` takes ``"staged"``, as the paper does, and ``"lazy"`` where what a stage carries to the next
        one makes a record too large for a partition.
    cores, partitions, join, persistence : optional
        Decisions made by hand; the others follow from them.

    Returns
    -------
    TransferPlan

    Raises
    ------
    CerebroError
        A decision by hand that does not exist.
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
    _check("logical", logical, ("auto", *LOGICAL_PLANS))
    _check("join", join, (None, *get_args(Join)))
    _check("persistence", persistence, (None, *get_args(Persistence)))
    for name, number in (("cores", cores), ("partitions", partitions)):
        if number is not None and number < 1:
            raise CerebroError(f"{name}={number}: at least 1")

    def planned(kind: Logical) -> TransferPlan:
        tables = size_tables(workload, kind, constants)
        search = _Search(workload, cluster, constants, kind, tables, cores, partitions, join, persistence)
        return search.plan()

    if logical != "auto":
        return planned(logical)
    try:
        return planned("staged")
    except InfeasiblePlanError as error:
        if error.constraint != "partition":
            raise
        return planned("lazy")


def _check(name: str, value: str | None, known: tuple[str | None, ...]) -> None:
    if value not in known:
        names = [one for one in known if one is not None]
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
            found = self._demand(cores, broadcast=self.join == "broadcast")
            if found is None or found.partition_bytes >= self.constants.partition_bytes:
                break
            if not self._missing(found):
                return self._settle(found, self._reason(above, limit))
            above = found
        raise self._refusal(limit)

    def _demand(self, cores: int, *, broadcast: bool) -> Demand | None:
        """``None`` where a record is too large for a partition, which is so for any number of cores."""
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

    def _missing(self, found: Demand) -> dict[str, int]:
        """Bytes that the machines are short of, by constraint."""
        driver = self.cluster.driver_memory_bytes
        short = {
            "memory": found.node_bytes - self.cluster.memory_bytes,
            "gpu": found.gpu_bytes - self.cluster.gpu_memory_bytes,
            "driver": found.driver_node_bytes - (self.cluster.memory_bytes if driver is None else driver),
        }
        return {name: by for name, by in short.items() if by > 0}

    def _settle(self, found: Demand, limited_by: str) -> TransferPlan:
        join: Join = self.join or "shuffle"
        if self.join is None and self.tables.structured_bytes < self.constants.broadcast_bytes:
            wider = self._demand(found.cores, broadcast=True)
            if wider is not None and not self._missing(wider):
                found, join = wider, "broadcast"
        heap = found.heap_bytes(self.cluster.memory_bytes, self.constants)
        cached = self.tables.double_bytes
        share = divided(cached, self.cluster.nodes) if self.constants.spill_per_node else cached
        if self.constants.storage_as_needed:
            grain = self.constants.granularity_bytes
            wanted = found.heap_fixed_bytes + max(1, divided(share, grain)) * grain
            heap = min(heap, max(found.heap_least_bytes, wanted))
        storage = found.storage_bytes(heap)
        persistence = self.persistence or ("serialized" if storage < share else "deserialized")
        return TransferPlan(
            cores=found.cores,
            partitions=found.partitions,
            join=join,
            persistence=persistence,
            logical=self.logical,
            storage_bytes=storage,
            user_bytes=found.user_bytes,
            dl_bytes=found.dl_bytes,
            core_bytes=found.core_bytes,
            python_bytes=found.python_bytes,
            os_bytes=found.os_bytes,
            heap_bytes=heap,
            overhead_bytes=self._overhead(heap),
            off_heap_bytes=found.off_heap_bytes,
            driver_bytes=found.driver_bytes,
            gpu_bytes=max(0, found.gpu_bytes - 1),
            partition_bytes=found.partition_bytes,
            cached_bytes=cached,
            limited_by=limited_by,
            tables=self.tables,
            workload=self.workload,
            cluster=self.cluster,
            constants=self.constants,
        )
