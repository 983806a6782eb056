"""Heartbeat of a worker process, sent by a child process that also kills a worker which the driver has given up."""

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

# The arguments contain the secret, so they are passed by standard input: other users can read a command line.
_PROGRAM = """\
import json, sys
order = json.loads(sys.stdin.buffer.readline())
sys.path[:] = order.pop("path")
from udfs.heartbeat._sender import send
send(**order)
"""

# Environment variables that Python needs to start. None of them is secret.
_ENVIRONMENT = ("PATH", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "LANG", "LC_ALL", "TMPDIR")

# Otherwise numpy starts one thread per core.
_THREADS = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}

_PAUSE_S = 1.0
_END_S = 2.0


class Heartbeat:
    """Child process that sends a heartbeat once a second, and is replaced if it is killed.

    A thread of this process could not do this: a trainer that computes in C for minutes without releasing Python's
    global lock would block it, and the driver would consider the worker lost. The child reports that this process
    exists and is not stopped. The driver's time limit of a unit covers workers that make no progress.

    The child ends with this process, and then sends the driver the last output of the process. It takes about 17 MB of
    memory and a thousandth of a core.

    Parameters
    ----------
    credentials : Credentials
        Credentials of the run. The child does not receive the private key of the certificate.
    lost_s : float
        Seconds without an answer after which the child kills this process. Default 30.
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
        # Start the child early, so that it imports its modules while the worker loads its shards.
        self._child = self._spawn()

    def start(self) -> None:
        """Start to send heartbeats."""
        self._write(self._child, b"\n")
        threading.Thread(target=self._replace_killed, name="heartbeat", daemon=True).start()

    def stop(self) -> None:
        """Stop the heartbeats and end the child process."""
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
        with suppress(OSError):  # the child was killed and will be replaced
            _stdin(child).write(line)
            _stdin(child).flush()


def _stdin(child: subprocess.Popen[bytes]) -> IO[bytes]:
    return cast("IO[bytes]", child.stdin)
