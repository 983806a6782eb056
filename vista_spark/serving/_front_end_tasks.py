"""Front ends in tasks of Spark's, where HTTP clients reach the cluster's nodes and not this process."""

from __future__ import annotations

import logging
import threading
import uuid
from typing import TYPE_CHECKING, Literal, NamedTuple, Self

from udfs.driver import WorkerJobs
from udfs.rpc import Endpoint, new_credentials
from udfs.serving.http import FrontEndWorker, HttpLimits, RouterService, token_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pyspark.sql import SparkSession

    from udfs.serving import Router
    from udfs.serving.http import Gauge

__all__ = ["FrontEndTasks"]

_LOG = logging.getLogger(__name__)

_START_S = 180.0
_REFRESH_S = 5.0
_RESTARTS = 3

# One that asks for nothing for so long is lost.
_SILENCE_S = 10.0


class _Here(NamedTuple):
    front_end: str
    url: str


class FrontEndTasks:
    """A router's models over HTTP, by tasks of a Spark session, each at a port of its node.

    They read and write HTTP; each request goes to the router of this process. One that is lost is started again,
    maybe on another node.

    Parameters
    ----------
    spark : SparkSession
    router : Router
    count : int
    driver_host : str
        Under which the tasks reach this process.
    encrypted : bool
        Whether they and this process encrypt what they send each other. HTTP is not encrypted.
    host : str
        ``"0.0.0.0"`` for all interfaces of a node; else each listens at the one that leads to this process.
    port : int
        Of each; 0 takes a free one, as has to be where two may be on one node.
    token : str or False, optional
    limits : HttpLimits, optional
    gauges : callable, optional
        As of :class:`udfs.serving.http.FrontEnd`.

    Attributes
    ----------
    token : str or None
    """

    def __init__(
        self,
        spark: SparkSession,
        router: Router,
        count: int,
        *,
        driver_host: str,
        encrypted: bool,
        host: str,
        port: int,
        token: str | Literal[False] | None = None,
        limits: HttpLimits | None = None,
        gauges: Callable[[], Iterable[Gauge]] | None = None,
    ) -> None:
        self.token = token_of(token)
        self._service = RouterService(router, gauges, self._arrived)
        self._changed = threading.Condition()
        self._here: dict[str, _Here] = {}
        self._given_up: set[str] = set()
        self._failure: BaseException | None = None
        self._over = threading.Event()
        self._names = tuple(f"front-end-{number}" for number in range(count))
        credentials = new_credentials(encrypted=encrypted)
        self._endpoint = Endpoint(driver_host, credentials, self._service.protocol, self._service.answer)
        pool, location = f"serving-http-{uuid.uuid4().hex[:12]}", self._endpoint.location
        workers = [
            FrontEndWorker(name, pool, location, credentials, host, port, limits or HttpLimits(), self.token)
            for name in self._names
        ]
        self._jobs = WorkerJobs(spark, self, workers, restarts=_RESTARTS)

    @property
    def urls(self) -> tuple[str, ...]:
        """Where clients find those that are there."""
        with self._changed:
            return tuple(self._here[name].url for name in sorted(self._here))

    @property
    def url(self) -> str:
        """Where clients find the first of them; ``""`` while none is there."""
        return next(iter(self.urls), "")

    def start(self) -> Self:
        """Start the tasks, and wait until all answer.

        Raises
        ------
        Exception
            What ended their jobs, or ``TimeoutError``.
        """
        self._jobs.start()
        with self._changed:
            self._changed.wait_for(lambda: self._failure is not None or self.complete, _START_S)
            failure = self._failure
            if failure is None and not self.complete:
                failure = TimeoutError(
                    f"the front ends have not called for {_START_S:g} s: do other jobs hold the slots?"
                )
        if failure is not None:
            self.close()
            raise failure
        return self

    def refresh(self) -> None:
        """Wait until all of them know which models there are now."""
        if not self._service.refresh(_REFRESH_S):
            _LOG.warning("a front end has not asked for the list of models for %g s", _REFRESH_S)

    def close(self) -> None:
        """Take no more requests, wait a few seconds for those that are in flight, and end the tasks."""
        self._over.set()
        with self._changed:
            here = list(self._here.values())
        for one in here:
            self._service.dismiss(one.front_end)
        self._jobs.stop()
        for one in here:
            self._service.lost(one.front_end)
        self._endpoint.shutdown()

    def _arrived(self, worker: str, front_end: str, url: str) -> bool:
        with self._changed:
            if self._over.is_set() or worker not in self._names:
                return False
            former = self._here.get(worker)
            self._service.admit(front_end)
            self._here[worker] = _Here(front_end, url)
            self._changed.notify_all()
        if former is not None:
            self._service.lost(former.front_end)
        return True

    # For the jobs.

    def lose(self, name: str, why: str) -> None:
        """Note that a front end is gone."""
        with self._changed:
            gone = self._here.pop(name, None)
        if gone is not None:
            _LOG.warning("front end %s at %s is lost: %s", name, gone.url, why)
            self._service.lost(gone.front_end)

    def give_up(self, name: str) -> None:
        """Note that a front end will not come back."""
        with self._changed:
            self._given_up.add(name)
            self._changed.notify_all()

    def fail(self, error: BaseException) -> None:
        """Note why none will."""
        with self._changed:
            self._failure = error
            self._changed.notify_all()

    def wait(self, timeout_s: float) -> bool:
        """Wait until it is over, and give whether it is."""
        return self._over.wait(timeout_s)

    def uncharged(self, name: str) -> int:  # noqa: ARG002 - of the protocol
        """Count losses that are no front end's fault: none."""
        return 0

    def abort(self) -> None:
        """End what is left: a front end ends itself once this process does not know it."""

    def settle(self, timeout_s: float) -> bool:  # noqa: ARG002
        """Tell whether no process is at work."""
        return True

    @property
    def alive(self) -> tuple[str, ...]:
        """Names of those that are there."""
        with self._changed:
            return tuple(self._here)

    @property
    def complete(self) -> bool:
        """Whether all of them are there."""
        return len(self._here) == len(self._names)

    def look_after(self) -> tuple[str, ...]:
        """Find those that have fallen silent."""
        with self._changed:
            silent = [name for name, one in self._here.items() if self._service.silent_s(one.front_end) > _SILENCE_S]
        for name in silent:
            self.lose(name, f"it has asked for nothing for {_SILENCE_S:g} s")
        return tuple(silent)
