"""Program of the daemon: ``python -m udfs.preloading.daemon``, which Spark starts in place of ``pyspark.daemon``.

``pyspark.daemon`` forks a process per worker, and each imports numpy, pyarrow and torch. This program imports them
before the first fork, so that workers start without them and share their memory. It does so only if the process has a
single thread and no GPU afterwards; otherwise it becomes ``pyspark.daemon``. The condition is checked again before each
fork: a worker whose fork would be unsafe starts as a new process. Reasons are in the executor's log (stderr).
"""

from __future__ import annotations

import gc
import importlib
import os
import signal
import socket
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from udfs.preloading._fork_safety import fork_hazard

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

__all__ = ["MODULES", "MODULES_VARIABLE", "main", "preload"]

MODULES_VARIABLE = "CEREBRO_PRELOAD"
"""Environment variable with a comma-separated list of modules to import instead of :data:`MODULES`."""

MODULES = ("numpy", "pyarrow", "PIL.Image", "torch", "udfs.inference", "udfs.handlers.torch")
"""Modules that a worker with a torch network imports first; those that are not installed are skipped."""

_SPARK = "pyspark.daemon"
_WORKER = "pyspark.worker"
# jemalloc in pyarrow starts a thread when it is loaded, unless this variable says otherwise.
_JEMALLOC = ("JE_ARROW_MALLOC_CONF", "background_thread:false")


def main() -> None:
    """Import the modules and serve Spark, or become ``pyspark.daemon`` if a fork would not be safe."""
    if len(sys.argv) > 2 and sys.argv[1] == "--socket":
        _, _, descriptor, *sys.argv[1:] = sys.argv
        _serve(socket.socket(fileno=int(descriptor)))
        return
    worker = sys.argv[1] if len(sys.argv) > 1 and sys.argv[1].startswith("pyspark") else _WORKER
    # Spark reads the daemon's port from its standard output, where a module may print as it is imported.
    with _stdout_as_stderr():
        preload((*_modules(), worker))
    hazard = fork_hazard()
    if hazard is not None:
        _log(f"workers import their modules themselves: {hazard}")
        os.execv(sys.executable, [sys.executable, "-m", _SPARK, *sys.argv[1:]])  # noqa: S606 - no shell is wanted
    daemon = importlib.import_module(_SPARK)
    os.fork = _checked(os.fork)
    gc.collect()
    # The collector writes to the objects that it visits, which would copy their pages into each worker.
    gc.freeze()
    daemon.manager()


def preload(modules: Sequence[str]) -> dict[str, float]:
    """Import modules and end the threads that their libraries started and can start again.

    Parameters
    ----------
    modules : sequence of str
        Dotted names. A module that cannot be imported is skipped, with a line in the log.

    Returns
    -------
    dict of str to float
        Seconds that each import took.
    """
    seconds: dict[str, float] = {}
    name, value = _JEMALLOC
    is_set = name in os.environ
    os.environ.setdefault(name, value)
    try:
        for module in modules:
            started = time.perf_counter()
            try:
                importlib.import_module(module)
            except Exception as error:  # noqa: BLE001 - the worker imports it again, and reports what it raises
                if not (isinstance(error, ModuleNotFoundError) and error.name == module.partition(".")[0]):
                    _log(f"{module} cannot be imported before workers are forked: {error!r}")
                continue
            seconds[module] = time.perf_counter() - started
    finally:
        if not is_set:
            del os.environ[name]
    # OpenBLAS ends its threads before a fork, and starts them again when they are needed, in parent and child.
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    return seconds


def _modules() -> Sequence[str]:
    listed = os.environ.get(MODULES_VARIABLE)
    return MODULES if listed is None else [name.strip() for name in listed.split(",") if name.strip()]


def _checked(fork: Callable[[], int]) -> Callable[[], int]:
    """Return a function that forks, and replaces a child of an unsafe fork with a new process."""

    def checked_fork() -> int:
        hazard = fork_hazard()
        # The variable of pyspark.daemon.manager, which is the only caller in this process.
        connection = sys._getframe(1).f_locals.get("sock")  # noqa: SLF001 - the only reader of it
        child = fork()
        if child != 0:
            if hazard is not None:
                _log(f"worker {child} imports its modules itself: {hazard}")
            return child
        if hazard is not None and isinstance(connection, socket.socket):
            # Only system calls until the new program runs, because another thread may have held a lock.
            os.set_inheritable(connection.fileno(), True)
            program = [sys.executable, "-m", "udfs.preloading.daemon", "--socket", str(connection.fileno())]
            os.execv(sys.executable, [*program, *sys.argv[1:]])  # noqa: S606 - no shell is wanted
        os.fork = fork
        # All workers would otherwise share the state of numpy's global generator.
        random = sys.modules.get("numpy.random")
        if random is not None:
            random.seed()
        return child

    return checked_fork


def _serve(connection: socket.socket) -> None:
    """Run a worker in a process of its own, as a child of ``pyspark.daemon`` does."""
    daemon: Any = importlib.import_module(_SPARK)
    serializers: Any = importlib.import_module("pyspark.serializers")
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    with Path(os.devnull).open() as nothing:
        os.dup2(nothing.fileno(), 0)
    with connection.makefile(mode="wb") as outgoing:
        serializers.write_int(os.getpid(), outgoing)
    authenticated = os.environ.get("PYTHON_UNIX_DOMAIN_ENABLED", "false").lower() == "true"
    while True:
        code = daemon.worker(connection, authenticated)
        authenticated = authenticated or code == 0
        if code or not os.environ.get("SPARK_REUSE_WORKER"):
            break
        gc.collect()
    # Spark closes the connection when it has read all results.
    while connection.recv(1024):
        pass
    os._exit(0)


@contextmanager
def _stdout_as_stderr() -> Iterator[None]:
    before = os.dup(1)
    os.dup2(2, 1)
    try:
        yield
    finally:
        sys.stdout.flush()
        os.dup2(before, 1)
        os.close(before)


def _log(message: str) -> None:
    sys.stderr.write(f"cerebro-spark: {message}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    main()
