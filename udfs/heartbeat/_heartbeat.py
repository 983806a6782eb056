"""Tells the driver that a worker's process lives, and ends the process where the driver has given it up."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from typing import IO

    from udfs.heartbeat._output import Output
    from udfs.rpc import Credentials, WireProtocol

__all__ = ["Heartbeat"]

_LOG = logging.getLogger(__name__)

# The order with the secret comes by the standard input: other users can read a command line.
_PROGRAM = """\
import json, sys
order = json.loads(sys.stdin.buffer.readline())
sys.path[:] = order.pop("path")
from udfs.heartbeat._sender import send
send(**order)
"""

# Of this process's environment, what a Python needs to start. Nothing in it is secret.
_ENVIRONMENT = ("PATH", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "LANG", "LC_ALL", "TMPDIR")

# numpy would start a thread per core.
_THREADS = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}

_PAUSE_S = 1.0
_END_S = 2.0


class Heartbeat:
    """A child process that beats once a second, and another one in its place if it is killed.

    A thread of this process could not: a trainer that computes in C for minutes without giving up Python's global lock
    would have its worker taken for lost. The child says that this process exists and is not stopped; that it gets on
    with its work is what the driver's limit of a unit is for.

    The child ends with this process, and tells the driver so, with what the process printed last. It takes about 17 MB,
    and a thousandth of a core.

    Parameters
    ----------
    worker, attempt : str
        The sender.
    driver : str
        Location of the driver's endpoint.
    credentials : Credentials
        The run's. The child does not get the key of its certificate.
    protocol : WireProtocol
        Of that endpoint.
    lost_s : float
        Seconds without an answer after which the child ends this process. Default 30.
    output : Output, optional
        Of this process.
    """

    def __init__(
        self,
        worker: str,
        attempt: str,
        driver: str,
        credentials: Credentials,
        protocol: WireProtocol,
        *,
        lost_s: float = 30.0,
        output: Output | None = None,
    ) -> None:
        self._worker = worker
        self._output = output
        order = {
            "path": sys.path,
            "parent": os.getpid(),
            "worker": worker,
            "attempt": attempt,
            "driver": driver,
            "secret": credentials.secret.hex(),
            "certificate": credentials.certificate,
            "protocol": protocol.name,
            "version": protocol.version,
            "lost_s": lost_s,
            "output": None if output is None else output.descriptor,
        }
        self._order = json.dumps(order).encode() + b"\n"
        self._lock = threading.Lock()
        self._over = threading.Event()
        # It starts at once, and has time to import what it needs while the worker loads its shards.
        self._child = self._spawn()

    def start(self) -> None:
        """Beat from now on."""
        self._write(self._child, b"\n")
        threading.Thread(target=self._replace_killed, name="heartbeat", daemon=True).start()

    def stop(self) -> None:
        """Beat no more, and end the child."""
        with self._lock:
            self._over.set()
            child = self._child
        with suppress(OSError):
            _stdin(child).close()
        try:
            child.wait(_END_S)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()

    def _replace_killed(self) -> None:
        child = self._child
        while True:
            status = child.wait()
            if self._over.wait(_PAUSE_S):
                return
            _LOG.warning("the heartbeat of worker %s ended with status %d: another one starts", self._worker, status)
            with self._lock:
                if self._over.is_set():
                    return
                self._child = child = self._spawn()
            self._write(child, b"\n")

    def _spawn(self) -> subprocess.Popen[bytes]:
        environment = {name: os.environ[name] for name in _ENVIRONMENT if name in os.environ}
        child = subprocess.Popen(  # noqa: S603 - this interpreter
            [sys.executable, "-I", "-c", _PROGRAM, f"heartbeat of {self._worker}"],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=None if self._output is None else self._output.console,
            pass_fds=() if self._output is None else (self._output.descriptor,),
            env=environment | _THREADS,
        )
        self._write(child, self._order)
        return child

    def _write(self, child: subprocess.Popen[bytes], line: bytes) -> None:
        with suppress(OSError):  # it has been killed, and is replaced
            _stdin(child).write(line)
            _stdin(child).flush()


def _stdin(child: subprocess.Popen[bytes]) -> IO[bytes]:
    return cast("IO[bytes]", child.stdin)
