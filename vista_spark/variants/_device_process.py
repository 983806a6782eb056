"""``DeviceProcess``: a device in a process of its own, with a limit of its memory."""

from __future__ import annotations

import itertools
import math
import pickle
import subprocess
import sys
import threading
from concurrent.futures import Future
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Self

from pyspark import cloudpickle

from optimizer.arguments import whole_or_none
from udfs.device import DeviceClosedError
from vista_spark.errors import InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from udfs.device import Answer
    from vista_spark.variants._catalog import Catalog

__all__ = ["DeviceProcess"]

_PROGRAM = (
    "import pickle, sys; sys.path[:] = pickle.load(sys.stdin.buffer); "
    "from vista_spark.variants._device_main import main; main()"
)
_STATUS = ("joules", "dollars", "memory_bytes", "peak_memory_bytes", "connected")


class DeviceProcess:
    """`Device` in a child process, which isolates the caller from the memory and the code of the variants.

    Parameters
    ----------
    catalogs : sequence of Catalog
        Catalogs, one for each task.
    hard_limit_bytes : int, optional
        Memory that the process may allocate after its start. A variant that exceeds it fails to load, and another one
        answers. Only on Linux. Default: no limit beyond `memory_bytes`.
    **options
        Arguments of `Device`; `cloud` must be an address.

    Raises
    ------
    InvalidArgumentError
        An argument is not valid.
    UnservableError
        See `Device`.

    Examples
    --------
    >>> from vista_spark.variants import DeviceProcess
    >>> with DeviceProcess([scene], memory_bytes=60_000_000, joules=5_000) as device:  # doctest: +SKIP
    ...     print(device.submit("scene", image).result().prediction, device.status()["joules"])
    """

    def __init__(self, catalogs: Sequence[Catalog], *, hard_limit_bytes: int | None = None, **options: Any) -> None:
        whole_or_none("hard_limit_bytes", hard_limit_bytes)
        if not isinstance(options.get("cloud"), str | None):
            raise InvalidArgumentError(f"cloud must be the HTTP address of a server, got {options['cloud']!r}.")
        setup = cloudpickle.dumps((list(catalogs), options, hard_limit_bytes))  # type: ignore[no-untyped-call]
        self._numbers = itertools.count(1)
        self._futures: dict[int, Future[Any]] = {}
        self._lock = threading.Lock()
        self._process = subprocess.Popen(  # noqa: S603 - a fixed program, whose arguments come through the pipe
            [sys.executable, "-c", _PROGRAM],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            # In a session of its own it does not receive the interrupts of a notebook.
            start_new_session=True,
        )
        self._reader = threading.Thread(target=self._read, name="device-reader", daemon=True)
        self._reader.start()
        try:
            self._send(0, pickle.dumps(sys.path) + setup).result()
        except BaseException:
            self.close()
            raise

    def submit(self, task: str, image: bytes, *, deadline_s: float = math.inf) -> Future[Answer]:
        """Submit an image; see `Device.submit`. All errors are in the future."""
        return self._call("submit", (task, image), deadline_s)

    def status(self) -> dict[str, Any]:
        """Return the remaining ``joules`` and ``dollars``, ``memory_bytes``, ``peak_memory_bytes``, ``connected``."""
        result: dict[str, Any] = self._call("status", _STATUS, 0.0).result()
        return result

    def close(self) -> None:
        """Answer the requests that wait, and end the process."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        # The pipe of a process that was killed is broken.
        with self._lock, suppress(BrokenPipeError):
            self._process.stdin.close()
        self._process.wait()
        self._reader.join()
        self._process.stdout.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _call(self, name: str, arguments: Sequence[Any], deadline_s: float) -> Future[Any]:
        number = next(self._numbers)
        return self._send(number, pickle.dumps((number, name, arguments, deadline_s)))

    def _send(self, number: int, content: bytes) -> Future[Any]:
        """Send a message, and return the future of its answer."""
        assert self._process.stdin is not None
        future: Future[Any] = Future()
        future.set_running_or_notify_cancel()
        self._futures[number] = future
        try:
            with self._lock:
                self._process.stdin.write(content)
                self._process.stdin.flush()
        except (OSError, ValueError):  # the process has ended, or this object is closed
            if threading.current_thread() is not self._reader:
                self._reader.join()  # it settles the futures whose answers came before the end
            self._fail(number)
        return future

    def _read(self) -> None:
        """Settle the futures of the answers; the end of the process settles all others."""
        assert self._process.stdout is not None
        try:
            while True:
                number, result, error = pickle.load(self._process.stdout)  # noqa: S301 - from the child
                future = self._futures.pop(number)
                future.set_exception(error) if error is not None else future.set_result(result)
        except (EOFError, pickle.UnpicklingError):
            pass  # the process has ended, perhaps in the middle of an answer
        except BaseException:
            self._process.kill()  # its answers are not read any more
            raise
        finally:
            for number in list(self._futures):
                self._fail(number)

    def _fail(self, number: int) -> None:
        """Fail a future that has no answer, because the process has ended."""
        future = self._futures.pop(number, None)
        if future is not None:
            code = self._process.wait()
            future.set_exception(
                DeviceClosedError(f"The process of the device ended with code {code}. Make a new one.")
            )
