"""The Spark jobs that backends live in, and what the driver knows of each."""

from __future__ import annotations

import logging
import socket
import threading
import time
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql import is_remote

from udfs.driver import WorkerJobs
from udfs.handlers import registered_frameworks
from udfs.rpc import Endpoint, RefusedError, new_credentials
from udfs.serving import ATTACHING, Attach, Attached, BackendWorker, Link

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pyspark.sql import SparkSession

    from udfs.rpc import Request
    from udfs.serving import GroupRecipe, LiveRouter, Results

__all__ = ["BackendOptions", "Backends"]

_LOG = logging.getLogger(__name__)

# For a process that is gone to be replaced by Spark itself; then its job is ended, and started again.
_RETURN_S = 15.0


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
    hangs_ms : float
        A batch that runs for longer hangs, and its process is ended.
    """

    host: str | None
    encrypted: bool
    restarts: int
    policy: str
    threads: int
    device: str
    hangs_ms: float


class Backends:
    """The backends of a server. It supervises their jobs; links to those that are there go to the router.

    Parameters
    ----------
    spark : SparkSession
    names : sequence of str
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
        self._names = tuple(names)
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
        self._endpoint = Endpoint(options.host or _host(spark), self._credentials, ATTACHING, self.answer)
        pool = f"serving-{uuid.uuid4().hex[:12]}"
        workers = [
            BackendWorker(
                name,
                pool,
                self._endpoint.location,
                self._credentials,
                recipes,
                policy=options.policy,
                threads=options.threads,
                device=options.device,
                registered=registered_frameworks(),
            )
            for name in names
        ]
        self._jobs = WorkerJobs(spark, self, workers, restarts=options.restarts)

    def start(self, timeout_s: float) -> None:
        """Start the jobs, and wait until every backend has called.

        Raises
        ------
        Exception
            What ended the jobs, or ``TimeoutError``.
        """
        self._jobs.start()
        with self._changed:
            self._changed.wait_for(lambda: self._failure is not None or self.complete, timeout_s)
            if self._failure is not None:
                raise self._failure
            if not self.complete:
                missing = ", ".join(name for name in self._names if name not in self._links)
                raise TimeoutError(
                    f"the backends {missing} have not called for {timeout_s:g} s: other jobs may hold the cluster's "
                    "slots, or its nodes cannot reach this process (driver_host)"
                )

    def stop(self) -> None:
        """End the backends and their jobs."""
        with self._changed:
            self._closing = True
            links = list(self._links.values())
            self._changed.notify_all()
        stopping = [threading.Thread(target=link.stop, daemon=True) for link in links]
        for thread in stopping:
            thread.start()
        for thread in stopping:
            thread.join()
        self._jobs.stop()
        self._endpoint.shutdown()

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
        assert isinstance(request, Attach)  # noqa: S101 - the protocol has no others
        if request.worker not in self._names:
            raise RefusedError(f"a call of {request.worker!r}, which is no backend of this server")
        with self._changed:
            if self._closing:
                return Attached(wanted=False)
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
        """Note that no backend is left."""
        with self._changed:
            self._failure = error
            self._changed.notify_all()

    def wait(self, timeout_s: float) -> bool:
        """Wait until the server stops; gives whether it does."""
        with self._changed:
            return self._changed.wait_for(lambda: self._closing, timeout_s)

    def uncharged(self, name: str) -> int:  # noqa: ARG002 - of the protocol
        """Count losses that are no backend's fault: none."""
        return 0

    def abort(self) -> None:
        """End what is left: backends whose router is gone end themselves."""
        for link in self.links.values():
            link.close()

    def settle(self, timeout_s: float) -> bool:  # noqa: ARG002
        """Tell whether no process is at work."""
        return True

    @property
    def alive(self) -> tuple[str, ...]:
        """Names of the backends that are there."""
        return tuple(self.links)

    @property
    def complete(self) -> bool:
        """Whether every backend has called."""
        with self._changed:
            return self._called >= set(self._names)

    def look_after(self) -> tuple[str, ...]:
        """Find backends whose batch hangs, and those that are silent and were not replaced."""
        hanging = [name for name, link in self.links.items() if link.running_ms > self._hangs_ms]
        for name in hanging:
            self.lose(name, f"a batch has run for more than {self._hangs_ms / 1000:g} s")
        with self._changed:
            before = time.monotonic() - _RETURN_S
            silent = [name for name, since in self._gone.items() if since < before]
            for name in silent:
                del self._gone[name]
        return (*hanging, *silent)


def _host(spark: SparkSession) -> str:
    """Find the name or address under which the workers reach this process."""
    configured = None if is_remote() else spark.conf.get("spark.driver.host", None)
    return configured or socket.gethostname()
