"""A process with a Spark master of its own: one JVM cannot change its number of cores."""

from __future__ import annotations

import subprocess
import sys
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any, Protocol

from benchmarks.transfer._job import Setup, Workbench

if TYPE_CHECKING:
    from typing import Self

__all__ = ["Master"]


class _Request(Protocol):
    """The function that is sent: it is pickled, and runs in the other process."""

    def run(self, bench: Workbench) -> Any:
        """Run the function."""


class Master:
    """Spark on ``local[cores]`` in a process that is idle until it is asked.

    Parameters
    ----------
    cores : int
    setup : Setup
    """

    def __init__(self, cores: int, setup: Setup) -> None:
        self.cores = cores
        self._link, there = Pipe()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.transfer._master", str(there.fileno())], pass_fds=[there.fileno()]
        )
        there.close()
        self._link.send((cores, setup))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._link.close()
        self._process.wait()

    def run(self, request: _Request) -> Any:
        """Send a request to the process and return its answer.

        Raises
        ------
        RuntimeError
            The process ended instead.
        """
        self._link.send(request)
        try:
            return self._link.recv()
        except EOFError:
            raise RuntimeError(f"local[{self.cores}] ended at {request}; what it said is above") from None


def _serve(link: Connection) -> None:
    """Answer requests until the connection is closed."""
    cores, setup = link.recv()
    bench = Workbench(cores, setup)
    while True:
        try:
            request: _Request = link.recv()
        except EOFError:
            break
        link.send(request.run(bench))
    bench.spark.stop()


if __name__ == "__main__":
    _serve(Connection(int(sys.argv[1])))
