"""HTTP front end in several processes that share a port."""

from __future__ import annotations

import logging
import os
import pickle
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

from optimizer.arguments import whole
from optimizer.errors import InvalidArgumentError
from udfs.rpc import Endpoint, new_credentials
from udfs.serving.http._address import check_port, listening, token_of, url_of
from udfs.serving.http._app import DRAIN_S
from udfs.serving.http._limits import HttpLimits
from udfs.serving.http._router_service import RouterService

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Iterable

    from udfs.serving import Router
    from udfs.serving.http._prometheus import Gauge

__all__ = ["FrontEndProcesses"]

_LOG = logging.getLogger(__name__)

_START_S = 60.0

# A process that ends this soon after its start, this often in a row, is not started again.
_SOON_S, _MOST_ENDS = 10.0, 3

# Seconds until all processes must know a new list of models.
_REFRESH_S = 5.0

_ROOT = str(Path(__file__).resolve().parents[3])


class FrontEndProcesses:
    """HTTP front end of a router, like :class:`FrontEnd`, in several processes that share a port.

    The processes read and write HTTP. They forward requests and counts to the router of this process, so that
    ``/metrics`` covers all of them. A killed process loses its requests and is started again.

    Parameters
    ----------
    router : Router
        Router that answers the requests.
    count : int
        Number of processes.
    host, port, token, limits, gauges
        See :class:`FrontEnd`; limits are per process.

    Raises
    ------
    InvalidArgumentError
        The count, port, token or host is not valid.
    """

    def __init__(
        self,
        router: Router,
        count: int,
        *,
        host: str = "127.0.0.1",
        port: int = 8080,
        token: str | Literal[False] | None = None,
        limits: HttpLimits | None = None,
        gauges: Callable[[], Iterable[Gauge]] | None = None,
    ) -> None:
        whole("count", count)
        check_port(port)
        self.host, self.port, self.token = host, port, token_of(token)
        self._count = count
        self._limits = limits or HttpLimits()
        self._service = RouterService(router, gauges)
        self._credentials = new_credentials(encrypted=False)  # messages stay on this machine
        self._changed = threading.Condition()
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        self._ready: set[int] = set()
        self._given_up: set[int] = set()
        self._closing = False
        self._socket: socket.socket | None = None
        self._endpoint: Endpoint | None = None
        self._threads: list[threading.Thread] = []

    @property
    def url(self) -> str:
        """URL for clients on this machine."""
        return url_of(self.host, self.port)

    @property
    def processes(self) -> tuple[int, ...]:
        """Identifiers of the processes that accept requests."""
        with self._changed:
            return tuple(self._processes[number].pid for number in sorted(self._ready))

    def start(self) -> Self:
        """Start to listen and answer, until :meth:`close`.

        Raises
        ------
        PortTakenError
            Another process listens at the port.
        InvalidArgumentError
            The host is not an address of this machine, or the port needs more rights.
        TimeoutError
            The processes did not start.
        """
        if self._socket is not None:
            raise InvalidArgumentError("A front end can be started once. Create another one.")
        self._socket = listening(self.host, self.port)
        self.port = self._socket.getsockname()[1]
        self._endpoint = Endpoint("127.0.0.1", self._credentials, self._service.protocol, self._service.answer)
        for number in range(self._count):
            thread = threading.Thread(target=self._keep, args=(number,), name=f"front-end-{number}", daemon=True)
            thread.start()
            self._threads.append(thread)
        with self._changed:
            self._changed.wait_for(lambda: len(self._ready) == self._count or self._given_up, _START_S)
            complete = len(self._ready) == self._count
        if not complete:
            self.close()
            raise TimeoutError(f"The front ends did not start within {_START_S:g} s. The log has the reason.")
        return self

    def refresh(self) -> None:
        """Wait until all processes know the current list of models."""
        if not self._service.refresh(_REFRESH_S):
            _LOG.warning("a front end has not asked for the list of models for %g s", _REFRESH_S)

    def close(self) -> None:
        """Refuse new requests, wait a few seconds for those in flight, and stop."""
        with self._changed:
            self._closing = True
            processes = list(self._processes.values())
            self._changed.notify_all()
        for process in processes:
            with suppress(OSError):  # the process has ended
                if process.stdin is not None:
                    process.stdin.close()
        until = time.monotonic() + DRAIN_S + 5
        for process in processes:
            try:
                process.wait(max(0.0, until - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
        for thread in self._threads:
            thread.join()
        if self._endpoint is not None:
            self._endpoint.shutdown()
        if self._socket is not None:
            self._socket.close()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()

    def _keep(self, number: int) -> None:
        """Run a front end, and start it again when it ends."""
        ends = turn = 0
        while ends < _MOST_ENDS:
            turn += 1
            began, name = time.monotonic(), f"front-end-{number}-{turn}"
            self._service.admit(name)
            try:
                code: object = self._run(number, name)
            except Exception as error:  # noqa: BLE001 - the machine may have no memory or descriptor for a process now
                code = error
            self._service.lost(name)
            with self._changed:
                self._ready.discard(number)
                if self._closing:
                    return
            ends = ends + 1 if time.monotonic() - began < _SOON_S else 0
            _LOG.warning("front end %d ended with %s; it is started again", number, code)
        _LOG.error("front end %d ended %d times in a row soon after its start: it is not started again", number, ends)
        with self._changed:
            self._given_up.add(number)
            self._changed.notify_all()

    def _run(self, number: int, name: str) -> int:
        """Run a front end to its end; return its exit code."""
        assert self._socket is not None
        assert self._endpoint is not None
        settings: dict[str, Any] = {
            "descriptor": self._socket.fileno(),
            "front_end": {
                "name": name,
                "location": self._endpoint.location,
                "credentials": self._credentials,
                "limits": self._limits,
                "token": self.token,
            },
        }
        with self._changed:
            if self._closing:
                return 0
            process = subprocess.Popen(
                [sys.executable, "-m", "udfs.serving.http._front_end_main"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                pass_fds=[self._socket.fileno()],
                env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [_ROOT, os.environ.get("PYTHONPATH")]))},
                # In a session of its own it does not receive the interrupts of a notebook.
                start_new_session=True,
            )
            self._processes[number] = process
        assert process.stdin is not None
        assert process.stdout is not None
        with suppress(OSError):  # the process has ended
            process.stdin.write(pickle.dumps(settings))
            process.stdin.flush()
        if process.stdout.readline():
            with self._changed:
                self._ready.add(number)
                self._changed.notify_all()
        code = process.wait()
        process.stdout.close()
        with suppress(OSError):
            process.stdin.close()
        return code
