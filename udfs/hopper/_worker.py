"""The long-lived task of a run, as Spark starts it.

Cerebro, section 3.4.2: the task executor and its side of a model hop; the calls go from the worker to the driver, so
that only the driver's address has to be known beforehand.
"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

import pyarrow as pa

from udfs.handlers import register_framework
from udfs.hopper._messages import HOPPER
from udfs.hopper._service import Service
from udfs.hopper._settings import WorkerSettings
from udfs.node import keep_freed_memory, limit_threads
from udfs.rpc import Caller, Credentials

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = ["HopperWorker"]

# Between threads of Python: a peer that fetches a checkpoint waits for as many turns of the training loop as it takes
# steps.
_SWITCH_S = 0.0005


# What the user's function has captured may be large.
_SETTINGS_S = 600.0


@dataclass(frozen=True, slots=True)
class HopperWorker:
    """One worker of a run. Call it with ``mapInArrow`` on a single row, in a job of its own.

    It is pickled into Spark's own message to the task, and so are the credentials. Spark writes a large function to a
    file for its tasks to read: all that may be large, the worker gets from the driver instead.

    Parameters
    ----------
    worker : str
        Name in the run; the driver's endpoint holds its :class:`WorkerSettings` under it.
    run : str
        Id of the run.
    driver : str
        Location of the driver's endpoint.
    credentials : Credentials
        The run's.
    spare : bool
        Whether it has no partitions at first.
    """

    worker: str
    run: str
    driver: str
    credentials: Credentials = field(repr=False)
    spare: bool = False

    schema: ClassVar[str] = "worker string, units long, seconds double, busy_seconds double, cpu_seconds double"
    """Columns: name, units trained or evaluated, seconds since the start, of those in units, and of the CPU since
    it was attached."""

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Serve until the run is over, and report one row."""
        for _ in batches:
            pass
        keep_freed_memory()
        caller = Caller(self.driver, self.credentials, HOPPER)
        settings = WorkerSettings.unpacked(caller.fetch(self.worker, timeout_s=_SETTINGS_S))
        caller.close()
        register_framework(*settings.registered)
        limit_threads(settings.threads)
        sys.setswitchinterval(_SWITCH_S)
        with Service(settings, self.driver, self.credentials) as service:
            service.serve()
        yield pa.RecordBatch.from_pydict(
            {
                "worker": [self.worker],
                "units": pa.array([service.units], pa.int64()),
                "seconds": [time.monotonic() - service.started],
                "busy_seconds": [service.busy_seconds],
                "cpu_seconds": [time.process_time() - service.cpu_before],
            }
        )
