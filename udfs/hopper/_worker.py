"""Long-lived task of a session's runs, as Spark starts it.

Cerebro, section 3.4.2: the task executor and its side of a model hop; the calls go from the worker to the driver, so
that only the driver's address has to be known beforehand.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from udfs.hopper._services import Services
from udfs.node import keep_freed_memory, worker_status
from udfs.rpc import Credentials  # noqa: TC001 - its instances are pickled

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import pyarrow as pa

__all__ = ["PoolWorker"]

# Between threads of Python: a peer that fetches a checkpoint waits for as many turns of the training loop as it takes
# steps.
_SWITCH_S = 0.0005


@dataclass(frozen=True, slots=True)
class PoolWorker:
    """Worker of a pool, for all runs that share it. Call it with ``mapInArrow`` on one row, in a job of its own.

    It is pickled into Spark's own message to the task, and so are the credentials. Spark writes a large function to a
    file for its tasks to read: all that may be large, the worker gets from the driver instead.
    """

    worker: str  # name in the pool, and in each of its runs, whose endpoints hold its WorkerSettings under it
    pool: str
    driver: str  # location of the pool's endpoint
    credentials: Credentials = field(repr=False)
    spare: bool = False  # whether it has no partitions at first
    grace_s: float = 30.0  # seconds between the notice that its machine is about to end and the end

    schema: ClassVar[str] = "worker string"
    """There are no rows: the driver hears of all by calls."""

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Serve until the last run is over."""
        for _ in batches:
            pass
        keep_freed_memory()
        sys.setswitchinterval(_SWITCH_S)
        status = worker_status()
        status.begin("hopper")
        try:
            Services(self.worker, self.driver, self.credentials, self.grace_s).serve()
        finally:
            status.end()
        return iter(())
