"""Backends of a server: the Spark jobs that run them, and the connections to them."""

from __future__ import annotations

import itertools
import logging
import threading
import time
import uuid
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from udfs.driver import driver_host
from udfs.handlers import registered_frameworks
from udfs.node import SupervisedThread
from udfs.rpc import Endpoint, RefusedError, new_credentials
from udfs.serving import ATTACHING, Attach, Attached, BackendWorker, Link
from vista_spark.serving._backend_job import BackendJob

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from pyspark.sql import SparkSession

    from udfs.rpc import Request
    from udfs.serving import BackendSpec, GroupRecipe, LiveRouter, Results

__all__ = ["BackendOptions", "Backends"]

_LOG = logging.getLogger(__name__)

# Seconds in which Spark may replace a lost process; then the job is ended and started again.
_RETURN_S = 15.0

# Assumed seconds until a backend connects, before one has.
_USUAL_S = 15.0


@dataclass(frozen=True, slots=True)
class BackendOptions:
    """Settings for starting backends.

    ``host`` is the address of this process for the backends; ``None`` asks Spark. ``restarts`` counts those of a lost
    backend's job. After ``hangs_ms`` milliseconds a running batch counts as hung and its process is ended.
    """

    backend: BackendSpec
    host: str | None
    encrypted: bool
    restarts: int
    hangs_ms: float


class Backends:
    """The backends of a server, each in a Spark job. The router gets a link to each connected backend.

    ``changed`` is called whenever a backend connects or is lost, in any thread.
    """

    def __init__(
        self,
        spark: SparkSession,
        names: Sequence[str],
        recipes: Mapping[str, GroupRecipe],
        router: LiveRouter,
        changed: Callable[[], None],
        options: BackendOptions,
    ) -> None:
        self._spark = spark
        self._names = tuple(names)
        self._recipes = recipes
        self._options = options
        self._pool = f"serving-{uuid.uuid4().hex[:12]}"
        self._numbers = itertools.count()
        self._jobs: dict[str, BackendJob] = {}
        self._asked: dict[str, float] = {}
        self._took_s = _USUAL_S
        self._ending: list[threading.Thread] = []
        self._router = router
        self._changed_hook = changed
        self._changed = threading.Condition()
        self._links: dict[str, Link] = {}
        self._attached: dict[str, tuple[str, int]] = {}
        self._called: set[str] = set()
        self._given_up: set[str] = set()
        self._gone: dict[str, float] = {}
        self._hangs_ms = options.hangs_ms
        self._closing = False
        self._failure: BaseException | None = None
        self._credentials = new_credentials(encrypted=options.encrypted)
        self._endpoint = Endpoint(options.host or driver_host(spark), self._credentials, ATTACHING, self.answer)

    def start(self, count: int, timeout_s: float) -> None:
        """Start some backends, and wait until each has connected.

        Raises
        ------
        Exception
            The error that ended the jobs, or ``TimeoutError``.
        """
        self.grow(count)
        with self._changed:
            self._changed.wait_for(lambda: self._failure is not None or self.complete, timeout_s)
            if self._failure is not None:
                raise self._failure
            if not self.complete:
                missing = ", ".join(name for name in self.wanted if name not in self._links)
                raise TimeoutError(
                    f"The backends {missing} did not connect within {timeout_s:g} s. Check that other jobs leave task "
                    "slots free, and that the nodes reach this process (set driver_host)."
                )

    def grow(self, count: int) -> tuple[str, ...]:
        """Ask Spark for backends up to a count, pending ones included; return the names of the new ones."""
        # A backend without restarts left serves no more; its name is free for another.
        self.give_back(tuple(self._given_up))
        with self._changed:
            if self._closing:
                return ()
            free = [name for name in self._names if name not in self._jobs]
            added = tuple(free[: max(0, count - len(self._jobs))])
            for name in added:
                self._given_up.discard(name)
                self._called.discard(name)
                self._asked[name] = time.monotonic()
                self._jobs[name] = BackendJob(self._spark, self, self._worker(name), restarts=self._options.restarts)
            jobs = [self._jobs[name] for name in added]
        for job in jobs:
            job.start()
        return added

    def give_back(self, names: Collection[str]) -> None:
        """End backends that receive no more requests, and free their task slots."""
        with self._changed:
            ending = {name: (self._jobs.pop(name), self._links.pop(name, None)) for name in names if name in self._jobs}
            for name in ending:
                self._gone.pop(name, None)
                self._asked.pop(name, None)
        for job, link in ending.values():
            # Stop the backend only after its job can no longer start it again.
            job.end()
            thread = SupervisedThread(partial(_end, job, link), f"end {job.name}", lambda _: None)
            thread.start()
            self._ending.append(thread)

    def stop(self) -> None:
        """End all backends and their jobs."""
        with self._changed:
            self._closing = True
            names = tuple(self._jobs)
            self._changed.notify_all()
        self.give_back(names)
        for thread in self._ending:
            thread.join()
        self._endpoint.shutdown()

    def _worker(self, name: str) -> BackendWorker:
        return BackendWorker(
            name,
            # Connect ends jobs by this id: a job that is still ending may have had the same name.
            f"{self._pool}-{next(self._numbers)}",
            self._endpoint.location,
            self._credentials,
            self._recipes,
            self._options.backend,
            registered_frameworks(),
        )

    @property
    def wanted(self) -> tuple[str, ...]:
        """Names of the requested backends that were neither ended nor given up."""
        with self._changed:
            return tuple(name for name in self._jobs if name not in self._given_up)

    @property
    def most(self) -> int:
        """Largest number of backends."""
        return len(self._names)

    @property
    def places(self) -> dict[str, tuple[str, int]]:
        """Host of each backend that has connected, and the number of processes that took its place."""
        with self._changed:
            return dict(self._attached)

    @property
    def took_s(self) -> float:
        """Seconds that the last backend took to connect."""
        return self._took_s

    @property
    def links(self) -> dict[str, Link]:
        """Links to the connected backends, by name."""
        with self._changed:
            return {name: link for name, link in self._links.items() if link.alive}

    @property
    def results(self) -> dict[str, Results]:
        """Last report of each backend, by name."""
        return {name: link.results for name, link in self.links.items() if link.results is not None}

    def noticed(self, link: Link, why: str) -> None:
        """Handle the router's report that a backend is lost."""
        with self._changed:
            if self._closing:
                return
            if link.lost_rows and link.name in self._jobs:
                # The end of its job may report the loss a second time.
                link.lost_rows = 0
                self._jobs[link.name].excuse()
            if self._links.get(link.name) is link:
                del self._links[link.name]
                self._gone[link.name] = time.monotonic()
                _LOG.warning("backend %s is lost: %s", link.name, why)
        self._changed_hook()

    # For the backends' processes.

    def answer(self, request: Request[Any]) -> Any:
        """Handle the first call of a backend."""
        assert isinstance(request, Attach)
        if request.worker not in self._names:
            raise RefusedError(f"{request.worker!r} is not a backend of this server.")
        with self._changed:
            if self._closing or request.worker not in self._jobs:
                return Attached(wanted=False)
            if request.worker in self._asked:
                self._took_s = time.monotonic() - self._asked.pop(request.worker)
            former = self._links.get(request.worker)
            link = Link(request.worker, request.location, self._credentials, self._router)
            self._links[request.worker] = link
            _, earlier = self._attached.get(request.worker, ("", -1))
            self._attached[request.worker] = urlsplit(request.location).hostname or request.location, earlier + 1
            self._gone.pop(request.worker, None)
            self._called.add(request.worker)
            self._changed.notify_all()
        if former is not None:
            former.close()
            self._router.lost(former, "another process took its place")
        link.start()
        self._router.attach(link)
        self._changed_hook()
        return Attached(wanted=True)

    # For the jobs.

    def lose(self, name: str, why: str, *, hung_since: float | None = None) -> None:
        """Handle the end of a backend's job, or a batch of it that has hung since a time of the monotonic clock."""
        with self._changed:
            link = self._links.pop(name, None)
            self._gone.pop(name, None)
        if link is not None:
            _LOG.warning("backend %s is lost: %s", name, why)
            link.close()
            self._router.lost(link, why, hung_since=hung_since)

    def give_up(self, name: str) -> None:
        """Record that a backend has no restarts left."""
        with self._changed:
            self._given_up.add(name)
            self._changed.notify_all()

    def fail(self, error: BaseException) -> None:
        """Record the error of a backend; without any other backend, :meth:`start` raises it."""
        with self._changed:
            if self._given_up >= self._jobs.keys() and not self._links:
                self._failure = error
                self._changed.notify_all()

    def has_called(self, name: str) -> bool:
        """Return whether a backend has connected since it was requested."""
        return name in self._called

    @property
    def alive(self) -> tuple[str, ...]:
        """Names of the connected backends."""
        return tuple(self.links)

    @property
    def complete(self) -> bool:
        """True if every requested backend has connected."""
        with self._changed:
            return self._called >= self._jobs.keys()

    def look_after(self, name: str) -> tuple[str, ...]:
        """Return the backend's name if its batch hangs, or if Spark has not replaced its lost process."""
        link = self.links.get(name)
        running_ms = 0.0 if link is None else link.running_ms
        if running_ms > self._hangs_ms:
            why = f"a batch has run for more than {self._hangs_ms / 1000:g} s"
            # The report has travelled, so this is later than the start of the batch: no row of it is left out.
            self.lose(name, why, hung_since=time.monotonic() - running_ms / 1000)
            return (name,)
        with self._changed:
            since = self._gone.get(name)
            if since is None or since >= time.monotonic() - _RETURN_S:
                return ()
            del self._gone[name]
        return (name,)


def _end(job: BackendJob, link: Link | None) -> None:
    try:
        if link is not None:
            link.stop()
    finally:
        job.stop()
