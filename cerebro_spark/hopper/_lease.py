"""Lease of a run: one driver at a time, independent of the clocks of the machines."""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
import uuid
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cerebro_spark.errors import RunError
from udfs.documents import DamagedError, document, typed, write_document
from udfs.names import check_name
from udfs.store import StoreError

if TYPE_CHECKING:
    from typing import Self

    from udfs.store import Store

__all__ = ["Lease"]

_LOG = logging.getLogger(__name__)

_BEAT_S = 2.0
_EXPIRY_S = 20.0


class Lease:
    """A file in a run's folder whose counter its driver raises every two seconds.

    Another driver watches the counter by its own clock. If it stands still for 20 seconds, or the driver's process is
    known to be gone because it was on this machine, the lease is taken over; if it moves, the run has a driver and the
    second one is refused, unless it is told to take over. A driver whose run another took over finds that out within
    two seconds of being awake, and stops.

    Parameters
    ----------
    store : Store
        Store with the run.
    run : str
        Name of the run in the store.
    beat_s, expiry_s : float
        Seconds between two beats, and without one until the lease has expired. Default 2 and 20.
    folder : str
        Folder of the store that has a folder for `run`. Default ``"runs"``.
    take_over : bool
        Whether a living driver has to stop for this one, which waits 20 seconds for it. Default false: a second driver
        is refused.

    Examples
    --------
    >>> import tempfile
    >>> from udfs.store import Store
    >>> store = Store.from_uri(tempfile.mkdtemp())
    >>> with Lease(store, "run") as lease:
    ...     lease.check()
    """

    def __init__(
        self,
        store: Store,
        run: str,
        *,
        beat_s: float = _BEAT_S,
        expiry_s: float = _EXPIRY_S,
        folder: str = "runs",
        take_over: bool = False,
    ) -> None:
        self._store = store
        self._run = check_name(run, "a run")
        self._place = (folder, run, "lease.json")
        self._beat_s, self._expiry_s = beat_s, expiry_s
        self._owner = uuid.uuid4().hex
        self._counter = 0
        self._contested = False
        self._takes_over = take_over
        self._over = threading.Event()
        self._taken = ""
        self._thread = threading.Thread(target=self._beat, name="lease", daemon=True)

    def __enter__(self) -> Self:
        """Take the lease, and delete the partial files that a killed driver's workers left.

        Raises
        ------
        RunError
            The run has a driver.
        udfs.store.StoreError
            The store cannot be read or written.
        """
        replaced = self._holder_to_replace() if self._takes_over else None
        if replaced is None:
            self._await_expiry()
        self._write()
        # Where two take over at once, the last writer has it.
        holder = self._read() if self._contested else None
        if holder is not None and holder["owner"] != self._owner:
            raise self._refused(holder)
        self._thread.start()
        if replaced is not None:
            self._await_end(replaced)
        self._store.sweep(*self._place[:-1])  # the writers of these files are gone
        return self

    def __exit__(self, *_: object) -> None:
        """Release the lease, so that the next driver need not wait."""
        self._over.set()
        self._thread.join()
        if not self._taken:
            with suppress(StoreError):
                self._store.delete(*self._place)

    def check(self) -> None:
        """Check that the run is still this driver's.

        Raises
        ------
        RunError
            Another driver has taken it over.
        """
        if self._taken:
            raise RunError(self._taken)

    def _holder_to_replace(self) -> dict[str, Any] | None:
        """Return the holder that may still be alive."""
        holder = self._read()
        self._contested = holder is not None
        return None if holder is None or _is_gone(holder) else holder

    def _await_end(self, former: dict[str, Any]) -> None:
        """Wait until a driver that was replaced has read the lease and stopped, or is gone."""
        _LOG.warning(
            "run %s is taken over from process %s on %s, which has up to %.0f s to stop",
            self._run,
            former["process"],
            former["host"],
            self._expiry_s,
        )
        until = time.monotonic() + self._expiry_s
        try:
            while time.monotonic() < until and not _is_gone(former):
                time.sleep(min(self._beat_s, self._expiry_s) / 2)
                self.check()
        except BaseException:
            self.__exit__()
            raise

    def _await_expiry(self) -> None:
        first = seen = self._read()
        self._contested = first is not None
        if first is None or _is_gone(first):
            return
        _LOG.warning(
            "run %s has a driver on %s; waiting up to %.0f s for a sign of it", self._run, first["host"], self._expiry_s
        )
        until = time.monotonic() + self._expiry_s
        while time.monotonic() < until:
            time.sleep(min(self._beat_s, self._expiry_s) / 2)
            seen = self._read()
            if seen is None:
                return
            if (seen["owner"], seen["counter"]) != (first["owner"], first["counter"]):
                raise self._refused(seen)

    def _refused(self, holder: dict[str, Any]) -> RunError:
        instead = ", or resume the run with take_over=True" if self._place[0] == "runs" else ""
        return RunError(
            f"run {self._run!r} is being trained by process {holder['process']} on {holder['host']}: wait for it, or "
            f"end it and try again after {self._expiry_s:.0f} s{instead}"
        )

    def _read(self) -> dict[str, Any] | None:
        if not self._store.exists(*self._place):
            return None
        try:
            with document(self._store, *self._place, remedy="it is written again") as data:
                texts = {name: typed(data, name, str) for name in ("owner", "host", "machine", "process")}
                return {**texts, "counter": typed(data, "counter", int)}
        except (DamagedError, StoreError):
            # Its owner is unknown; the owner, if there is one, writes it again.
            return {"owner": "", "host": "?", "machine": "", "process": "?", "counter": -1}

    def _write(self) -> None:
        self._counter += 1
        facts = {"owner": self._owner, "counter": self._counter, "host": socket.gethostname()}
        write_document(self._store, facts | _process(os.getpid()), *self._place)

    def _beat(self) -> None:
        while not self._over.wait(self._beat_s):
            try:
                holder = self._read()
                if holder is not None and holder["owner"] not in ("", self._owner):
                    self._taken = (
                        f"run {self._run!r} was taken over by process {holder['process']} on {holder['host']}: this "
                        "driver stops"
                    )
                    return
                self._write()
            except StoreError:
                _LOG.warning("run %s: the lease could not be renewed", self._run, exc_info=True)


def _process(number: int) -> dict[str, str]:
    """Identify a process of this machine, beyond its number, which another one may get; empty where that is unknown."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        namespace = Path("/proc/self/ns/pid").readlink()
        # Behind the name, which may hold spaces and brackets: the state, and as the 20th field the time of the start.
        state, *rest = Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()
    except (OSError, ValueError):
        return {"machine": "", "process": str(number)}
    return {"machine": f"{boot} {namespace}", "process": f"{number}/{rest[18]}{'' if state not in 'ZX' else ' dead'}"}


def _is_gone(holder: dict[str, Any]) -> bool:
    """Return ``True`` if a lease's process was on this machine, and is not there any more."""
    number = holder["process"].partition("/")[0]
    if not number.isdigit() or not holder["machine"] or holder["machine"] != _process(os.getpid())["machine"]:
        return False
    gone: bool = _process(int(number))["process"] != holder["process"]
    return gone
