"""Status file of a Python worker, for the JVM plugin of its executor."""

from __future__ import annotations

import json
import os
import signal
import stat
import threading
import time
import traceback
from collections import deque
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from pyspark import TaskContext

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

__all__ = ["WorkerPhase", "WorkerStatus", "status_folder", "worker_status"]

WorkerPhase = Literal["load", "decode", "compute", "convert"]
"""Part of a task: opening the network, decoding inputs, running the network, building Arrow arrays."""

# Seconds between writes within a task.
_INTERVAL_S = 1.0

# Units of a search in the file, the latest.
_UNITS = 64

# An older process has been idle after tasks of other queries, so its start cannot be told from its idle time.
_LONGEST_START_S = 60.0


def status_folder() -> Path:
    """Return the folder that the plugin of an executor creates for the status files of this user."""
    return Path(os.environ.get("TMPDIR") or "/tmp", f"cerebro-spark-workers-{os.getuid()}")  # noqa: S108


class WorkerStatus:
    """Role and progress of the tasks of this process, written to ``<pid>.json`` in the folder of the plugin.

    Rows and seconds accumulate over the tasks of the process, so that a reader computes rates from differences. The
    file is replaced atomically at the start and the end of a task, and at most once a second between them. Without the
    folder, which only the plugin creates, nothing is written or measured. :func:`worker_status` returns the instance
    of the process.

    Parameters
    ----------
    folder : Path
        Folder of the plugin. It must belong to this user, without permissions for others.

    Examples
    --------
    >>> status = WorkerStatus(Path("no-such-folder"))
    >>> status.begin("inference")
    >>> with status.phase("decode"):
    ...     status.add_rows(8)
    >>> status.rows
    0
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.rows = 0
        self.seconds: dict[str, float] = dict.fromkeys(("start", "load", "decode", "compute", "convert"), 0.0)
        self.pid = os.getpid()
        self._started_ticks, self._thread = _start_ticks(), 0
        self._role, self._planned_bytes = "", None  # type: str, int | None
        # The stage of the last task stays after its end, so that a reader that missed the task can place its rows.
        self._attempt, self._stage = None, None  # type: int | None, int | None
        self._depth, self._phase, self._since, self._written = 0, "", 0.0, 0.0
        self._is_on, self._has_begun = False, False
        self._units: deque[dict[str, object]] = deque(maxlen=_UNITS)
        self._lock = threading.Lock()
        self._timer: threading.Timer | None = None

    def begin(self, role: str, planned_bytes: int | None = None) -> None:
        """Register a task of this process; the first one of nested calls decides the role.

        Parameters
        ----------
        role : str
            Kind of work: ``"inference"``, ``"hopper"``, ``"serving"``, ...
        planned_bytes : int, optional
            Planned resident memory of the process. Defaults to the share of ``spark.executor.pyspark.memory`` that
            Spark gave this worker, if that is set.
        """
        if self._is_on:
            self._depth += threading.get_ident() == self._thread
            return
        context = TaskContext.get()
        if context is None or not _is_private(self._folder):
            return
        self._is_on, self._depth = True, 1
        self._thread = threading.get_ident()
        self._role = role
        self._planned_bytes = _memory_of_worker() if planned_bytes is None else planned_bytes
        self._attempt, self._stage = context.taskAttemptId(), context.stageId()
        if not self._has_begun:
            self._has_begun = True
            age = _process_age()
            if age is not None and age <= _LONGEST_START_S:
                self.seconds["start"] = age
            self._register_stack()
        self._write()

    def end(self) -> None:
        """Unregister the task that :meth:`begin` registered."""
        if not self._is_running_here():
            return
        self._depth -= 1
        if self._depth == 0:
            self._attempt = None
            self._write()
            self._is_on = False

    @contextmanager
    def phase(self, name: WorkerPhase) -> Iterator[None]:
        """Charge the time of a ``with`` block to a phase; a block within it has its time to itself."""
        if not self._is_running_here():
            yield
            return
        outer = self._charge(name)
        try:
            yield
        finally:
            self._charge(outer)

    @contextmanager
    def unit(self, name: str, description: str) -> Iterator[None]:
        """Record a ``with`` block as a unit of a search, with the times of its begin and end.

        Parameters
        ----------
        name : str
            Configuration that it trains, ``"c003"``.
        description : str
            Part of its training, ``"epoch 2, shard 0"``.
        """
        if not self._is_running_here():
            yield
            return
        unit: dict[str, object] = {"name": name, "description": description, "begin": time.time(), "end": None}
        with self._lock:
            self._units.append(unit)
        self._write_soon()
        try:
            yield
        finally:
            unit["end"] = time.time()
            self._write_soon()

    def add_rows(self, rows: int) -> None:
        """Count rows that were computed, and write the file if a second has passed."""
        if not self._is_running_here():
            return
        self.rows += rows
        if time.monotonic() - self._written >= _INTERVAL_S:
            self._write()

    def _is_running_here(self) -> bool:
        """Return whether this thread began a task; other threads of it are not measured."""
        return self._is_on and threading.get_ident() == self._thread

    def _charge(self, name: str) -> str:
        """Charge the time since the last change to the phase until now, and return it."""
        now, outer = time.perf_counter(), self._phase
        if outer:
            self.seconds[outer] += now - self._since
        self._phase, self._since = name, now
        return outer

    def _write_soon(self) -> None:
        """Write the file at once if a second has passed, else when it has."""
        remaining = self._written + _INTERVAL_S - time.monotonic()
        if remaining <= 0:
            self._write()
        elif self._timer is None or not self._timer.is_alive():
            self._timer = threading.Timer(remaining, self._write)
            self._timer.daemon = True
            self._timer.start()

    def _write(self) -> None:
        # A timer may write as well.
        with self._lock:
            self._written = time.monotonic()
            self._replace(json.dumps(self._content()).encode())

    def _content(self) -> dict[str, object]:
        return {
            "role": self._role,
            "planned_bytes": self._planned_bytes,
            "task_attempt_id": self._attempt,
            "stage_id": self._stage,
            "rows": self.rows,
            "seconds": {name: round(seconds, 6) for name, seconds in self.seconds.items()},
            "updated": time.time(),
            # Tells this process from a later one with the same pid; in clock ticks after the boot.
            "started_ticks": self._started_ticks,
            "units": list(self._units),
        }

    def _replace(self, content: bytes) -> None:
        partial = f"{self._folder}/{self.pid}.partial"
        # A full disk or a folder that was deleted must not fail the task.
        with suppress(OSError):
            file = os.open(partial, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600)
            try:
                os.write(file, content)
            finally:
                os.close(file)
            os.replace(partial, f"{self._folder}/{self.pid}.json")  # noqa: PTH105 - a Path costs more than the rename

    def _register_stack(self) -> None:
        """Let SIGUSR1 write the stack of the main thread to ``<pid>.stack``, unless the signal is in use.

        The handler runs between two instructions of Python. One of faulthandler runs at once, and ended workers that
        were importing torch.
        """
        if signal.getsignal(signal.SIGUSR1) != signal.SIG_DFL or threading.current_thread() != threading.main_thread():
            return
        path = self._folder / f"{self.pid}.stack"

        def write(_: int, frame: FrameType | None) -> None:
            with suppress(OSError):
                path.write_text("".join(reversed(traceback.format_stack(frame))))

        with suppress(OSError, ValueError):
            path.write_text("")
            signal.signal(signal.SIGUSR1, write)


_status: WorkerStatus | None = None


def worker_status() -> WorkerStatus:
    """Return the status of this process.

    Examples
    --------
    >>> worker_status() is worker_status()
    True
    """
    global _status  # noqa: PLW0603 - one process, one file
    if _status is None or _status.pid != os.getpid():
        _status = WorkerStatus(status_folder())
    return _status


def _is_private(folder: Path) -> bool:
    try:
        entry = folder.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(entry.st_mode) and entry.st_uid == os.getuid() and not entry.st_mode & 0o077


def _memory_of_worker() -> int | None:
    """Read Spark's limit of this worker's memory, which it sets in the environment."""
    mebibytes = os.environ.get("PYSPARK_EXECUTOR_MEMORY_MB", "")
    return int(mebibytes) << 20 if mebibytes.isdigit() else None


def _start_ticks() -> int | None:
    try:
        return int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
    except (OSError, ValueError, IndexError):
        return None


def _process_age() -> float | None:
    """Measure the seconds since this process was forked."""
    ticks = _start_ticks()
    if ticks is None:
        return None
    return max(0.0, time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK"))
