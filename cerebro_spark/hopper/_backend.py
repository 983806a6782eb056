"""Backend of searches: a Spark session, and the number of its task slots that train."""

from __future__ import annotations

import math
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cerebro_spark.errors import InvalidArgumentError, TooFewSlotsError
from cerebro_spark.hopper._slots import slots_of
from udfs.driver import check_types, driver_host, encrypts, leased_slots, task_slots
from udfs.node import check_device

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["SparkBackend"]


@dataclass(frozen=True)
class SparkBackend:
    """A Spark session that trains.

    Searches on equal backends of one session may go on at the same time: they share the workers.

    Parameters
    ----------
    spark : SparkSession
        Classic or Connect session.
    num_workers : int
        Number of workers: long-lived tasks, each with one task slot and its own shards. They keep their slots during a
        run, and concurrent runs use the same workers.
    max_workers : int, optional
        Maximum number of workers: further workers start when the cluster has slots for them, and get shards when a
        trial ends an epoch. By default there are no further workers.
    threads : int
        CPU threads of one unit; ``spark.task.cpus`` by default.
    memory_bytes : int, optional
        Memory of a worker, half of it for shards and half for model states. Default: a quarter of the memory of its
        machine. Each search that shares the worker has this amount.
    restarts : int
        Number of times that a lost worker's job is started again before its shards go to the others. Default 3.
    rejoin_s : float
        Seconds to wait for a lost worker before its shards go to the others. If the worker returns later, it gets
        shards when a trial ends an epoch. Default 60.
    driver_host : str, optional
        Name or address of this machine under which the workers reach this process. The process listens on this
        interface only. Default: ``spark.driver.host``, or the name of this machine on Connect.
    device : str
        ``"auto"`` (default), ``"cpu"`` or ``"cuda"``. The accelerator is the one in the resources of the Spark task;
        ``"auto"`` trains on the CPU if the task has none.
    encrypt : bool, optional
        Whether driver and workers encrypt their messages, by TLS with a certificate of the run. By default they encrypt
        if Spark does, that is if ``spark.network.crypto.enabled``, or ``enabled`` of ``spark.ssl`` or of any part of
        it, is true in the session. A server that does not show its settings counts as unencrypted.
    grace_s : float
        Seconds that a worker has from the notice that its machine is about to end (SIGTERM) until the end. It hands
        over its states meanwhile, and ends its unit if it can. Default 30.

    Raises
    ------
    InvalidArgumentError
        A number is out of range, or `encrypt` is not a bool.

    Examples
    --------
    >>> from pyspark.sql import SparkSession
    >>> backend = SparkBackend(SparkSession.active(), num_workers=2)
    >>> backend.threads_per_worker
    1
    """

    spark: SparkSession
    num_workers: int
    max_workers: int | None = None
    threads: int | None = None
    memory_bytes: int | None = None
    restarts: int = 3
    rejoin_s: float = 60.0
    driver_host: str | None = None
    device: str = "auto"
    encrypt: bool | None = None
    grace_s: float = 30.0

    def __post_init__(self) -> None:
        # Commands check their options before they start Spark, with a backend without a session.
        check_types({"spark": ("SparkSession", "None")}, {"spark": self.spark})
        for name, value, least in (
            ("num_workers", self.num_workers, 1),
            ("max_workers", self.max_workers, self.num_workers),
            ("threads", self.threads, 1),
            ("memory_bytes", self.memory_bytes, 1 << 20),
            ("restarts", self.restarts, 0),
        ):
            if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < least):
                raise InvalidArgumentError(f"{name} must be an integer from {least} on, got {value!r}")

        if not (self.encrypt is None or isinstance(self.encrypt, bool)):
            raise InvalidArgumentError(f"encrypt must be True, False or None, got {self.encrypt!r}")
        check_device(self.device)
        for name, seconds in (("rejoin_s", self.rejoin_s), ("grace_s", self.grace_s)):
            if not 0 <= seconds < math.inf:
                raise InvalidArgumentError(f"{name} must be a finite number of seconds from 0 on, got {seconds!r}")

    @property
    def most_workers(self) -> int:
        """Largest number of workers at a time."""
        return self.max_workers or self.num_workers

    @property
    def host(self) -> str:
        """Name or address under which the workers reach this process."""
        return self.driver_host or driver_host(self.spark)

    @property
    def encrypts(self) -> bool:
        """True if driver and workers encrypt their messages."""
        return encrypts(self.spark) if self.encrypt is None else self.encrypt

    @property
    def threads_per_worker(self) -> int:
        """CPU threads of one unit."""
        return self.threads or int(self.spark.conf.get("spark.task.cpus", "1") or 1)

    def admit(self) -> None:
        """Check that the cluster has the task slots, before anything is written: Spark itself would wait for them.

        The executors of a session that has only just started get 30 seconds to register.

        Where a run goes on, its workers have their slots, and another one shares them.

        Raises
        ------
        TooFewSlotsError
            It has fewer.
        BusyError
            A run goes on in the session, and its workers are not like those of this backend.
        """
        slots = slots_of(self.spark)
        with ExitStack() as using:
            with slots.changed:
                pool = slots.settled()
                if pool is not None:
                    pool.check(self)
                    return
                using.enter_context(slots.used())
            leased = leased_slots(self.spark)
            count = task_slots(self.spark, wanted=leased + self.num_workers) - leased
            slots.count = count
        if count < self.num_workers:
            servers = f" beside the {leased} of running servers" if leased else ""
            raise TooFewSlotsError(
                f"num_workers={self.num_workers}, and the cluster runs {count} tasks at a time{servers}: ask for "
                f"{count} workers, or start Spark with more cores"
            )
