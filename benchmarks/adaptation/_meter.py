"""Resource usage of processes and their descendants: CPU seconds, and bytes read from and written to disk (Linux)."""

from __future__ import annotations

import os
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import TracebackType
    from typing import Self

__all__ = ["Meter", "Used", "forget"]

_TICKS = os.sysconf("SC_CLK_TCK")
_EVERY_S = 0.1
# What a worker takes at most to end after its cycle.
_UNMAPPED_S = 30.0


@dataclass(frozen=True, slots=True)
class Used:
    """CPU seconds, and bytes to and from the disk, without reads from the page cache."""

    cpu: float = 0.0
    read: int = 0
    written: int = 0


class Meter:
    """Context manager that measures the resources of some processes and their descendants.

    Parameters
    ----------
    roots : iterable of int
        Their ids. A descendant that ends is counted up to a tenth of a second before.

    Attributes
    ----------
    used : Used
        After the block.
    """

    def __init__(self, roots: Iterable[int]) -> None:
        self._roots = set(roots)
        self._before: dict[int, Used] = {}
        self._last: dict[int, Used] = {}
        self._over = threading.Event()
        self.used = Used()

    def __enter__(self) -> Self:
        self._before = _sample(self._roots)
        self._last = dict(self._before)
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()
        self._last |= _sample(self._roots)
        changes = [(self._before.get(pid, Used()), now) for pid, now in self._last.items()]
        self.used = Used(
            sum(now.cpu - before.cpu for before, now in changes),
            sum(now.read - before.read for before, now in changes),
            sum(now.written - before.written for before, now in changes),
        )

    def _watch(self) -> None:
        while not self._over.wait(_EVERY_S):
            self._last |= _sample(self._roots)


def _sample(roots: set[int]) -> dict[int, Used]:
    found = {}
    for pid in _family(roots):
        try:
            used = _used(Path("/proc", str(pid)))
        except (OSError, ValueError, IndexError):
            continue  # it has ended
        found[pid] = used
    return found


def _family(roots: set[int]) -> set[int]:
    children: dict[int, list[int]] = {}
    for process in Path("/proc").iterdir():
        if not process.name.isdigit():
            continue
        try:
            parent = int(_fields(process)[1])
        except (OSError, ValueError, IndexError):
            continue
        children.setdefault(parent, []).append(int(process.name))
    family, waiting = set(), list(roots)
    while waiting:
        pid = waiting.pop()
        if pid not in family:
            family.add(pid)
            waiting += children.get(pid, [])
    return family


def _fields(process: Path) -> list[str]:
    """Fields of ``stat`` from the state on: the command before may hold anything."""
    return (process / "stat").read_text().rpartition(")")[2].split()


def _used(process: Path) -> Used:
    fields = _fields(process)
    counts = dict(line.split(": ") for line in (process / "io").read_text().splitlines())
    cpu = (int(fields[11]) + int(fields[12])) / _TICKS
    return Used(cpu, int(counts["read_bytes"]), int(counts["write_bytes"]))


def forget(folder: Path) -> None:
    """Evict all files in a folder from the page cache, as hours of labelling between two cycles do.

    Raises
    ------
    TimeoutError
        A process below this one still maps one of them, whose pages therefore stay.
    """
    deadline = time.monotonic() + _UNMAPPED_S
    while mapping := [pid for pid in _family({os.getpid()}) if _maps(pid, folder)]:
        if time.monotonic() > deadline:
            raise TimeoutError(f"processes {mapping} have files of {folder} mapped, {_UNMAPPED_S:g} s after a cycle")
        time.sleep(_EVERY_S)
    for path in folder.rglob("*"):
        if path.is_file():
            held = os.open(path, os.O_RDONLY)
            try:
                os.fsync(held)
                os.posix_fadvise(held, 0, 0, os.POSIX_FADV_DONTNEED)
            finally:
                os.close(held)


def _maps(pid: int, folder: Path) -> bool:
    try:
        return str(folder) in Path("/proc", str(pid), "maps").read_text()
    except OSError:
        return False  # it has ended
