"""The job of one backend: it is started, and ended, for itself."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Protocol

from udfs.driver import WorkerJobs

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

    from udfs.serving import BackendWorker, Link

__all__ = ["BackendOwner", "OneBackend"]


class BackendOwner(Protocol):
    """Whoever has all backends of a server."""

    @property
    def links(self) -> Mapping[str, Link]:
        """Links to those that are there."""

    def lose(self, name: str, why: str) -> None:
        """Note that a backend's job ended."""

    def give_up(self, name: str) -> None:
        """Note that a backend will not come back."""

    def fail(self, error: BaseException) -> None:
        """Note why."""

    def has_called(self, name: str) -> bool:
        """Whether a backend has called since it was asked for."""

    def look_after(self, name: str) -> tuple[str, ...]:
        """Give a backend's name if it hangs, or is silent and was not replaced."""


class OneBackend:
    """Supervisor of one backend's job. A :class:`udfs.driver.WorkerJobs` calls it.

    Parameters
    ----------
    backends : BackendOwner
        All of the server's.
    worker : BackendWorker
    restarts : int
    """

    def __init__(self, spark: SparkSession, backends: BackendOwner, worker: BackendWorker, *, restarts: int) -> None:
        self._backends = backends
        self.name = worker.worker
        self._over = threading.Event()
        self._jobs = WorkerJobs(spark, self, [worker], restarts=restarts)

    def start(self) -> None:
        """Start the job."""
        self._jobs.start()

    def end(self) -> None:
        """Have the job not be started again."""
        self._over.set()

    def stop(self) -> None:
        """End the job, whose backend was told to stop, and wait for it."""
        self._over.set()
        self._jobs.stop()

    # For the job.

    def lose(self, name: str, why: str) -> None:
        """Note that the job ended."""
        self._backends.lose(name, why)

    def give_up(self, name: str) -> None:
        """Note that the backend will not come back."""
        self._backends.give_up(name)

    def fail(self, error: BaseException) -> None:
        """Note why the backend will not come back."""
        self._backends.fail(error)

    def wait(self, timeout_s: float) -> bool:
        """Wait until it is to end; gives whether it is."""
        return self._over.wait(timeout_s)

    def uncharged(self, name: str) -> int:  # of the protocol
        """Count losses that are no backend's fault: none."""
        return 0

    def abort(self) -> None:
        """End what is left: a backend whose router is gone ends itself."""
        link = self._backends.links.get(self.name)
        if link is not None:
            link.close()

    def settle(self, timeout_s: float) -> bool:
        """Tell whether no process is at work."""
        return True

    @property
    def alive(self) -> tuple[str, ...]:
        """Its name, if it is there."""
        return tuple(name for name in self._backends.links if name == self.name)

    @property
    def complete(self) -> bool:
        """Whether it has called."""
        return self._backends.has_called(self.name)

    def look_after(self) -> tuple[str, ...]:
        """Tell whether its batch hangs, or it is silent and was not replaced."""
        return self._backends.look_after(self.name)
