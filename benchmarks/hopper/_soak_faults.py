"""Faults of the soak: a schedule drawn by a seed, and their injection into a driver's processes and files."""

from __future__ import annotations

import ctypes
import os
import random
import signal
import socket
import time
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

import psutil

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

__all__ = ["KINDS", "Fault", "Hands", "faults"]

KINDS = {"kill": 18, "stop": 6, "cut": 12, "flip": 12, "flip and kill": 9, "driver": 2}
"""Kinds of faults, and how often each is drawn beside the others: a driver lives for minutes, for its leaks to show."""

FILES = {
    "shard": "store/prepared/*/*/*.parquet",
    "description": "store/prepared/*/*.json",
    "checkpoint": "store/runs/{run}/checkpoints/*/*.safetensors",
    "record": "store/runs/{run}/checkpoints/*/*.json",
    "settings": "store/runs/{run}/run.json",
    "results": "store/runs/{run}/trials/*.json",
    "events": "store/runs/{run}/events/*.json",
    "lease": "store/runs/{run}/lease.json",
    "cache": "cache/shards/*",
}
"""Kinds of files whose bits flip, and where they lie."""

# A worker is taken for lost after 15 seconds without a beat.
STOPPED_S = 18.0

_PARTIAL = ".partial-"

_T = TypeVar("_T")

# The same number on every architecture of Linux.
_PIDFD_GETFD = 438


@dataclass(frozen=True)
class Fault:
    """One fault.

    Parameters
    ----------
    after_s : float
        Seconds since the one before.
    kind : str
        One of :data:`KINDS`.
    draws : tuple of float
        Numbers in ``[0, 1)`` that choose among what there is at that moment.
    """

    after_s: float
    kind: str
    draws: tuple[float, float, float, float]


def faults(seed: int, every_s: float) -> Iterator[Fault]:
    """Draw faults without end, between half and one and a half of ``every_s`` apart.

    Examples
    --------
    >>> import itertools
    >>> list(itertools.islice(faults(1, 10), 5)) == list(itertools.islice(faults(1, 10), 5))
    True
    """
    drawn = random.Random(seed)  # no secret
    kinds, weights = list(KINDS), list(KINDS.values())
    while True:
        after_s = every_s * (0.5 + drawn.random())
        (kind,) = drawn.choices(kinds, weights)
        yield Fault(after_s, kind, (drawn.random(), drawn.random(), drawn.random(), drawn.random()))


@dataclass
class Hands:
    """Fault injection into the processes of one session and the files of one folder.

    Parameters
    ----------
    folder : Path

    Attributes
    ----------
    copies : dict of Path to bytes
        Files whose bits were flipped, as they were before.
    """

    folder: Path
    copies: dict[Path, bytes] = field(default_factory=dict)
    _flipped: dict[Path, bytes] = field(default_factory=dict)
    _stopped: dict[int, float] = field(default_factory=dict)

    def do(self, fault: Fault, driver: int, run: str) -> str:
        """Inject a fault and return its target, or an empty string if there is no target yet.

        Parameters
        ----------
        fault : Fault
        driver : int
            Process id of the driver, which leads its session.
        run : str
        """
        if fault.kind == "flip":
            return self._flip(fault, run)
        if fault.kind == "driver":
            return self._kill_driver(fault, driver)
        if fault.kind == "flip and kill":
            return self._flip_and_kill(fault, driver, run)
        workers = [(worker, beat) for worker, beat in _workers(driver) if worker not in self._stopped]
        with suppress(psutil.Error, OSError):  # it ended meanwhile
            return self._harm(fault, *_one(workers, fault.draws[0])) if workers else ""
        return ""

    def continue_stopped(self, *, all_of_them: bool = False) -> None:
        """Continue processes that were stopped long enough."""
        for pid, since in list(self._stopped.items()):
            if all_of_them or time.monotonic() - since > STOPPED_S:
                del self._stopped[pid]
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)

    def put_back(self, text: str) -> list[str]:
        """Restore copies of the files that a message names, and return their names."""
        named = [path for path in self.copies if str(path.relative_to(self.folder / "store")) in text]
        for path in named:
            path.write_bytes(self.copies.pop(path))
        return [path.name for path in named]

    def _harm(self, fault: Fault, worker: int, beat: int) -> str:
        if fault.kind == "kill":
            os.kill(worker, signal.SIGKILL)
            return f"worker {worker}"
        if fault.kind == "stop":
            return self._stop([worker] if fault.draws[1] < 0.5 else [worker, beat])
        return _cut([worker, beat], fault)

    def _flip_and_kill(self, fault: Fault, driver: int, run: str) -> str:
        """Flip a bit of a configuration's last checkpoint, and kill a worker, which may be the one that holds it."""
        workers = _workers(driver)
        configurations = sorted((self.folder / "store" / "runs" / run / "checkpoints").glob("*"))
        if not workers or not configurations:
            return ""
        checkpoints = sorted(_one(configurations, fault.draws[1]).glob("[0-9]*.safetensors"))
        with suppress(FileNotFoundError, IndexError, ProcessLookupError):  # replaced or deleted; none yet; it ended
            self._flip_bit(checkpoints[-1], fault.draws[2], fault.draws[3])
            worker, _ = _one(workers, fault.draws[0])
            os.kill(worker, signal.SIGKILL)
            return f"checkpoint {checkpoints[-1].relative_to(self.folder)}, worker {worker}"
        return ""

    def _stop(self, pids: list[int]) -> str:
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
            self._stopped[pid] = time.monotonic()
        return f"worker {pids[0]}{' and its heartbeat' if len(pids) > 1 else ''}"

    def _flip(self, fault: Fault, run: str) -> str:
        kinds = list(FILES)
        start = int(fault.draws[0] * len(kinds))
        for kind in kinds[start:] + kinds[:start]:
            paths = sorted(self.folder.glob(FILES[kind].format(run=run)))
            paths = [path for path in paths if not path.name.startswith(_PARTIAL)]
            with suppress(FileNotFoundError, IndexError):  # the run has deleted it; there is none, or it is empty
                path = _one(paths, fault.draws[1])
                self._flip_bit(path, fault.draws[2], fault.draws[3])
                return f"{kind} {path.relative_to(self.folder)}"
        return ""

    def _flip_bit(self, path: Path, where: float, which: float) -> None:
        before = path.read_bytes()
        place, bit = int(where * len(before)), 1 << int(which * 8)
        after = bytearray(before)
        after[place] ^= bit
        if "cache" in path.relative_to(self.folder).parts:
            # Workers have it mapped, and a damaged disk does not change what is in memory: only the next one sees it.
            other = path.with_name(f"{path.name}.flipped")
            other.write_bytes(after)
            other.replace(path)
            return
        if self._flipped.get(path) != before:
            self.copies[path] = before
        self._flipped[path] = bytes(after)
        with path.open("r+b") as file:
            file.seek(place)
            file.write(after[place : place + 1])

    def _kill_driver(self, fault: Fault, driver: int) -> str:
        """Kill its Python alone, or with its JVM, as when the machine's memory is used up."""
        jvms = [child.pid for child in psutil.Process(driver).children() if child.name() == "java"]
        for pid in [driver, *(jvms if fault.draws[0] < 0.5 else [])]:
            os.kill(pid, signal.SIGKILL)
        return f"driver {driver}{' and its JVM' if fault.draws[0] < 0.5 else ''}"


def _one(candidates: Sequence[_T], draw: float) -> _T:
    return candidates[int(draw * len(candidates))]


def _workers(driver: int) -> list[tuple[int, int]]:
    """List the process ids of the workers below a driver, each with that of its heartbeat."""
    found = []
    with suppress(psutil.Error):
        for process in psutil.Process(driver).children(recursive=True):
            with suppress(psutil.Error):
                if process.cmdline()[-1:] and process.cmdline()[-1].startswith("heartbeat of "):
                    found.append((process.ppid(), process.pid))
    return sorted(found)


def _cut(pids: list[int], fault: Fault) -> str:
    """Shut down one connection of some processes, or all: for both ends it is as if the network had reset it."""
    connections = [
        (pid, connection.fd)
        for pid in pids
        for connection in psutil.Process(pid).net_connections("tcp")
        if connection.status == psutil.CONN_ESTABLISHED
    ]
    if not connections:
        return ""
    cut = connections if fault.draws[1] < 0.5 else [_one(connections, fault.draws[2])]
    for pid, descriptor in cut:
        _shut_down(pid, descriptor)
    return f"{len(cut)} of {len(connections)} connections of worker {pids[0]}"


def _shut_down(pid: int, descriptor: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    with ExitStack() as stack:
        process = os.pidfd_open(pid)
        stack.callback(os.close, process)
        ours = libc.syscall(_PIDFD_GETFD, process, descriptor, 0)
        if ours < 0:
            raise OSError(ctypes.get_errno(), f"no copy of descriptor {descriptor} of process {pid}")
        connection = stack.enter_context(socket.socket(fileno=ours))
        with suppress(OSError):  # closed meanwhile
            connection.shutdown(socket.SHUT_RDWR)
