"""Memory limit for all processes of a command, and their peak resident memory."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import threading
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["Outcome", "enforcement", "run_limited"]

_V1 = Path("/sys/fs/cgroup/memory")
_V2 = Path("/sys/fs/cgroup")

# Between two looks at the processes; a look at a JVM's pages takes some milliseconds.
_EVERY = 0.2


@dataclass(frozen=True)
class Outcome:
    """Outcome of a command.

    Attributes
    ----------
    returncode : int
    output : str
        Standard output and error together.
    peak_bytes : int
        Proportional set size of all its processes together, at its highest: shared pages count once.
    by_process : dict of str to int
        The same by kind of process, each at the moment of the peak.
    seconds : float
    killed : bool
        Whether the limit ended a process.
    timed_out : bool
    """

    returncode: int
    output: str
    peak_bytes: int
    by_process: dict[str, int]
    seconds: float
    killed: bool
    timed_out: bool


def enforcement() -> str:
    """``"cgroup v1"`` or ``"cgroup v2"`` where this user may make groups, ``"watchdog"`` otherwise."""
    for name, root in (("cgroup v1", _V1), ("cgroup v2", _V2)):
        limit = "memory.limit_in_bytes" if root is _V1 else "memory.max"
        probe = root / f"probe-{os.getpid()}"
        try:
            probe.mkdir()
        except OSError:
            continue
        found = (probe / limit).is_file()
        probe.rmdir()
        if found:
            return name
    return "watchdog"


def run_limited(command: Sequence[str], limit_bytes: int, *, timeout: float, environment: dict[str, str]) -> Outcome:
    """Run a command; the kernel, or a watchdog like YARN's, kills what exceeds the limit.

    Parameters
    ----------
    command : sequence of str
    limit_bytes : int
        Of all its processes together.
    timeout : float
        Seconds.
    environment : dict of str to str
        Added to this process's.

    Returns
    -------
    Outcome
    """
    how = enforcement()
    with _group(how, limit_bytes) as group, tempfile.TemporaryFile("w+") as output:
        started = time.monotonic()
        process = subprocess.Popen(
            command,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=os.environ | environment,
            start_new_session=True,
            preexec_fn=None if group is None else lambda: _join(group),  # noqa: PLW1509 - one write, before exec
        )
        watch = _Watch(process.pid, limit_bytes if group is None else None)
        watch.start()
        try:
            process.wait(timeout)
            timed_out = False
        except subprocess.TimeoutExpired:
            timed_out = True
        watch.done.set()
        watch.join()
        _end(process)
        seconds = time.monotonic() - started
        killed = watch.killed or (group is not None and _oom_kills(group) > 0)
        output.seek(0)
        return Outcome(process.returncode, output.read(), watch.peak, watch.by_process, seconds, killed, timed_out)


@contextmanager
def _group(how: str, limit_bytes: int) -> Iterator[Path | None]:
    if how == "watchdog":
        yield None
        return
    root, name = (_V1, "memory.limit_in_bytes") if how == "cgroup v1" else (_V2, "memory.max")
    group = root / f"crash-matrix-{os.getpid()}-{time.monotonic_ns()}"
    group.mkdir()
    try:
        (group / name).write_text(str(limit_bytes))
        yield group
    finally:
        for _ in range(50):
            for pid in (group / "cgroup.procs").read_text().split():
                _kill(int(pid))
            try:
                group.rmdir()
                break
            except OSError:
                time.sleep(0.1)


def _join(group: Path) -> None:
    (group / "cgroup.procs").write_text(str(os.getpid()))


def _oom_kills(group: Path) -> int:
    """Count OOM kills: in ``memory.oom_control`` for cgroup v1, in ``memory.events`` for v2."""
    for name in ("memory.oom_control", "memory.events"):
        path = group / name
        if path.is_file():
            return sum(int(line.split()[1]) for line in path.read_text().splitlines() if line.startswith("oom_kill "))
    return 0


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill the whole session, because Spark's JVM and workers may outlive the process that started them."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _kill(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


class _Watch(threading.Thread):
    """Watchdog that sums up the processes repeatedly and kills the largest when they exceed the limit."""

    def __init__(self, pid: int, limit_bytes: int | None) -> None:
        super().__init__(daemon=True)
        self._root, self._limit = pid, limit_bytes
        self.done = threading.Event()
        self.peak = 0
        self.by_process: dict[str, int] = {}
        self.killed = False

    def run(self) -> None:
        """Watch until the command ends."""
        while not self.done.wait(_EVERY):
            sizes = self._sizes()
            total = sum(size for _, _, size in sizes)
            if total > self.peak:
                self.peak = total
                self.by_process = {}
                for _, kind, size in sizes:
                    self.by_process[kind] = self.by_process.get(kind, 0) + size
            if self._limit is not None and total > self._limit:
                _kill(max(sizes, key=lambda entry: entry[2])[0])
                self.killed = True

    def _sizes(self) -> list[tuple[int, str, int]]:
        try:
            family = [psutil.Process(self._root), *psutil.Process(self._root).children(recursive=True)]
        except psutil.Error:
            return []
        found = []
        for process in family:
            try:
                command = " ".join(process.cmdline())
                kind = "jvm" if "java" in process.name() else "worker" if "pyspark.worker" in command else "driver"
                found.append((process.pid, kind, process.memory_full_info().pss))
            except psutil.Error:
                continue
        return found
