"""The Spark jobs that backends live in, and what the driver knows of each."""

from __future__ import annotations

import itertools
import logging
import threading
import time
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from udfs.driver import driver_host
from udfs.handlers import registered_frameworks
from udfs.rpc import Endpoint, RefusedError, new_credentials
from udfs.serving import ATTACHING, Attach, Attached, BackendWorker, Link
from vista_spark.serving._one_backend import OneBackend

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from pyspark.sql import SparkSession

    from udfs.rpc import Request
    from udfs.serving import Deliveries, GroupRecipe, LiveRouter, Results

__all__ = ["BackendOptions", "Backends"]

_LOG = logging.getLogger(__name__)

# For a process that is gone to be replaced by Spark itself; then its job is ended, and started again.
_RETURN_S = 15.0

# For a backend to be there, before one was.
_USUAL_S = 15.0


@dataclass(frozen=True, slots=True)
class BackendOptions:
    """How backends are started.

    Parameters
    ----------
    host : str or None
        Under which they reach this process.
    encrypted : bool
    restarts : int
    policy : str
    threads : int
    device : str
    parallel : bool
        Whether the models of a backend run beside each other.
    hangs_ms : float
        A batch that runs for longer hangs, and its process is ended.
    deliveries : Deliveries, optional
        Where backends find the recipes of what is deployed later.
    """

    host: str | None
    encrypted: bool
    restarts: int
    policy: str
    threads: int
    device: str
    parallel: bool
    hangs_ms: float
    deliveries: Deliveries | None = None


class Backends:
    """The backends of a server, each in a Spark job; links to those that are there go to the router.

    Parameters
    ----------
    spark : SparkSession
    names : sequence of str
        Of all that there may be.
    recipes : mapping of str to GroupRecipe
    router : LiveRouter
    changed : callable
        Called whenever a backend has come or gone, in any thread.
    options : BackendOptions
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
        self._jobs: dict[str, OneBackend] = {}
        self._asked: dict[str, float] = {}
        self._took_s = _USUAL_S
        self._ending: list[threading.Thread] = []
        self._router = router
        self._changed_hook = changed
        self._changed = threading.Condition()
        self._links: dict[str, Link] = {}
        self._called: set[str] = set()
        self._given_up: set[str] = set()
        self._gone: dict[str, float] = {}
        self._hangs_ms = options.hangs_ms
        self._closing = False
        self._failure: BaseException | None = None
        self._credentials = new_credentials(encrypted=options.encrypted)
        self._endpoint = Endpoint(options.host or driver_host(spark), self._credentials, ATTACHING, self.answer)

    def start(self, count: int, timeout_s: float) -> None:
        """Start some backends, and wait until each has called.

        Raises
        ------
        Exception
            What ended the jobs, or ``TimeoutError``.
        """
        self.grow(count)
        with self._changed:
            self._changed.wait_for(lambda: self._failure is not None or self.complete, timeout_s)
            if self._failure is not None:
                raise self._failure
            if not self.complete:
                missing = ", ".join(name for name in self.wanted if name not in self._links)
                raise TimeoutError(
                    f"the backends {missing} have not called for {timeout_s:g} s: other jobs may hold the cluster's "
                    "slots, or its nodes cannot reach this process (driver_host)"
                )

    def grow(self, count: int) -> tuple[str, ...]:
        """Ask Spark for backends until there are so many, those that have not come yet among them; gives the new."""
        # One whose restarts are used up serves no more, and another may have its name.
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
                self._jobs[name] = OneBackend(self._spark, self, self._worker(name), restarts=self._options.restarts)
            jobs = [self._jobs[name] for name in added]
        for job in jobs:
            job.start()
        return added

    def give_back(self, names: Collection[str]) -> None:
        """End backends that nothing is sent to any more; their task slots are free soon after."""
        with self._changed:
            given = {name: (self._jobs.pop(name), self._links.pop(name, None)) for name in names if name in self._jobs}
            for name in given:
                self._gone.pop(name, None)
                self._asked.pop(name, None)
        for job, link in given.values():
            # It may be told to stop only once nothing starts it again.
            job.end()
            thread = threading.Thread(target=_end, args=(job, link), name=f"end {job.name}", daemon=True)
            thread.start()
            self._ending.append(thread)

    def stop(self) -> None:
        """End the backends and their jobs."""
        with self._changed:
            self._closing = True
            names = tuple(self._jobs)
            self._changed.notify_all()
        self.give_back(names)
        for thread in self._ending:
            thread.join()
        self._endpoint.shutdown()

    def _worker(self, name: str) -> BackendWorker:
        options = self._options
        return BackendWorker(
            name,
            # On Connect jobs are ended by this: one that is ending may have had the name before.
            f"{self._pool}-{next(self._numbers)}",
            self._endpoint.location,
            self._credentials,
            self._recipes,
            policy=options.policy,
            threads=options.threads,
            device=options.device,
            parallel=options.parallel,
            registered=registered_frameworks(),
            deliveries=options.deliveries,
        )

    @property
    def wanted(self) -> tuple[str, ...]:
        """Names of the backends that Spark was asked for, and that were not given back or given up."""
        with self._changed:
            return tuple(name for name in self._jobs if name not in self._given_up)

    @property
    def most(self) -> int:
        """Backends that there may be."""
        return len(self._names)

    @property
    def took_s(self) -> float:
        """Seconds that the last backend took to be there."""
        return self._took_s

    @property
    def links(self) -> dict[str, Link]:
        """Links to the backends that are there."""
        with self._changed:
            return {name: link for name, link in self._links.items() if link.alive}

    @property
    def results(self) -> dict[str, Results]:
        """What each backend said last of itself."""
        return {name: link.results for name, link in self.links.items() if link.results is not None}

    def noticed(self, link: Link, why: str) -> None:
        """Hear from the router that a backend is gone."""
        with self._changed:
            if self._closing:
                return
            if self._links.get(link.name) is link:
                del self._links[link.name]
                self._gone[link.name] = time.monotonic()
                _LOG.warning("backend %s is lost: %s", link.name, why)
        self._changed_hook()

    # For the backends' processes.

    def answer(self, request: Request[Any]) -> Any:
        """Reply to a backend that calls for the first time."""
        assert isinstance(request, Attach)
        if request.worker not in self._names:
            raise RefusedError(f"a call of {request.worker!r}, which is no backend of this server")
        with self._changed:
            if self._closing or request.worker not in self._jobs:
                return Attached(wanted=False)
            if request.worker in self._asked:
                self._took_s = time.monotonic() - self._asked.pop(request.worker)
            former = self._links.get(request.worker)
            link = Link(request.worker, request.location, self._credentials, self._router)
            self._links[request.worker] = link
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

    def lose(self, name: str, why: str) -> None:
        """Note that a backend's job ended."""
        with self._changed:
            link = self._links.pop(name, None)
            self._gone.pop(name, None)
        if link is not None:
            _LOG.warning("backend %s is lost: %s", name, why)
            link.close()
            self._router.lost(link, why)

    def give_up(self, name: str) -> None:
        """Note that a backend will not come back."""
        with self._changed:
            self._given_up.add(name)
            self._changed.notify_all()

    def fail(self, error: BaseException) -> None:
        """Note why a backend will not come back; where it was the last one, nothing serves."""
        with self._changed:
            if self._given_up >= self._jobs.keys() and not self._links:
                self._failure = error
                self._changed.notify_all()

    def has_called(self, name: str) -> bool:
        """Whether a backend has called since it was asked for."""
        return name in self._called

    @property
    def alive(self) -> tuple[str, ...]:
        """Names of the backends that are there."""
        return tuple(self.links)

    @property
    def complete(self) -> bool:
        """Whether every backend that was asked for has called."""
        with self._changed:
            return self._called >= self._jobs.keys()

    def look_after(self, name: str) -> tuple[str, ...]:
        """Give a backend's name if its batch hangs, or if it is silent and was not replaced."""
        link = self.links.get(name)
        if link is not None and link.running_ms > self._hangs_ms:
            self.lose(name, f"a batch has run for more than {self._hangs_ms / 1000:g} s")
            return (name,)
        with self._changed:
            since = self._gone.get(name)
            if since is None or since >= time.monotonic() - _RETURN_S:
                return ()
            del self._gone[name]
        return (name,)


def _end(job: OneBackend, link: Link | None) -> None:
    if link is not None:
        link.stop()
    job.stop()
