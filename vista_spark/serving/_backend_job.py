"""Supervision of the Spark job of one backend."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Protocol

from udfs.driver import WorkerJobs

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

    from udfs.serving import BackendWorker, Link

__all__ = ["BackendJob", "BackendOwner"]


class BackendOwner(Protocol):
    """The collection of a server's backends, as a job reports to it."""

    @property
    def links(self) -> Mapping[str, Link]:
        """Links to the connected backends."""

    def lose(self, name: str, why: str) -> None:
        """Handle the end of a backend's job."""

    def give_up(self, name: str) -> None:
        """Record that a backend has no restarts left."""

    def fail(self, error: BaseException) -> None:
        """Record the error of a backend."""

    def has_called(self, name: str) -> bool:
        """Return whether a backend has connected since it was requested."""

    def look_after(self, name: str) -> tuple[str, ...]:
        """Return the backend's name if it hangs, or was lost and not replaced."""


class BackendJob:
    """Supervisor of one backend's job; :class:`udfs.driver.WorkerJobs` calls it."""

    def __init__(self, spark: SparkSession, backends: BackendOwner, worker: BackendWorker, *, restarts: int) -> None:
        self._backends = backends
        self.name = worker.worker
        self._over = threading.Event()
        self._excused = 0
        self._jobs = WorkerJobs(spark, self, [worker], restarts=restarts)

    def start(self) -> None:
        """Start the job."""
        self._jobs.start()

    def excuse(self) -> None:
        """Do not count the last loss as a restart."""
        self._excused += 1

    def end(self) -> None:
        """Prevent another start of the job."""
        self._over.set()

    def stop(self) -> None:
        """End the job after its backend was stopped, and wait for it."""
        self._over.set()
        self._jobs.stop()

    # For the job.

    def lose(self, name: str, why: str) -> None:
        """Handle the end of the job."""
        self._backends.lose(name, why)

    def give_up(self, name: str) -> None:
        """Record that no restarts are left."""
        self._backends.give_up(name)

    def fail(self, error: BaseException) -> None:
        """Record the error of the job."""
        self._backends.fail(error)

    def wait(self, timeout_s: float) -> bool:
        """Wait for the end of the supervision; return whether it came."""
        return self._over.wait(timeout_s)

    def uncharged(self, name: str) -> int:
        """Return the losses that do not count as restarts: those with requests, which may be the cause."""
        return self._excused

    def abort(self) -> None:
        """Close the connection; a backend without a router ends by itself."""
        link = self._backends.links.get(self.name)
        if link is not None:
            link.close()

    def settle(self, timeout_s: float) -> bool:
        """Return whether no process is at work."""
        return True

    @property
    def alive(self) -> tuple[str, ...]:
        """Name of the backend if it is connected."""
        return tuple(name for name in self._backends.links if name == self.name)

    @property
    def complete(self) -> bool:
        """True if the backend has connected."""
        return self._backends.has_called(self.name)

    def look_after(self) -> tuple[str, ...]:
        """Return the backend's name if it hangs, or was lost and not replaced."""
        return self._backends.look_after(self.name)
