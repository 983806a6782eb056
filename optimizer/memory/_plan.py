"""Memory plan of a feature transfer: decisions, reasons in words, and Spark settings."""

from __future__ import annotations

from dataclasses import dataclass

from optimizer.memory import _explain, _spark
from optimizer.memory._apportionment import Apportionment
from optimizer.notebook import ExplainedInNotebooks

__all__ = ["TransferPlan"]


@dataclass(frozen=True, slots=True)
class TransferPlan(Apportionment, ExplainedInNotebooks):
    """Decisions, and the bytes of one executor in each memory region. Returned by :func:`plan_transfer`.

    Attributes
    ----------
    cores : int
        Task slots of an executor (``cpu``).
    executors, executors_per_node : int
        In the whole cluster, and on a node at most.
    partitions : int
        Number of partitions of the intermediate tables (``n_p``).
    persistence : {"deserialized", "serialized"}
        Format of cached tables.
    logical : str
        One of :data:`LOGICAL_PLANS`.
    storage_bytes, user_bytes, core_bytes : int
        Storage, User and Core Memory. User Memory is what equation 10 asks for, or more where
        ``Constants.memory_fraction_max`` keeps Storage Memory from the rest of the heap.
    dl_bytes : int
        DL Execution Memory: networks, and a downstream model that a framework trains.
    python_bytes : int
        Python workers before they load a model, Arrow batches, and the driver's Python if ``local``.
    os_bytes : int
        Memory of a node that is left to the operating system.
    heap_bytes : int
        The executor's heap: what Spark sets aside, User, Core and Storage Memory, and the driver's if ``local``.
    overhead_bytes : int
        Memory of the JVM outside its heap.
    off_heap_bytes : int
        Core Memory, if that is outside the heap.
    driver_bytes : int
        The driver's heap; 0 where it was left out.
    gpu_bytes : int
        Memory of the node's GPU.
    partition_bytes : int
        The largest partition.
    cached_bytes : int
        The most that is cached at once, over the cluster (``s_double``).
    limited_by : str
        Reason why the plan does not use one more core.
    memory_bound : bool
        Whether that is because of memory.
    """

    def explain(self) -> str:
        """Describe the decisions, each with its reason."""
        return _explain.explain(self)

    def to_spark_conf(self) -> dict[str, str]:
        """Return the Spark configuration of these regions.

        Returns
        -------
        dict of str to str
            Settings that must be set before the session starts, and settings of SQL. Memory is in whole MiB, and the
            heap and all that is beside it together never exceed the node's memory.
        """
        return _spark.to_spark_conf(self)
