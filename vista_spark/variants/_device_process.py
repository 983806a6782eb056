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
            raise InvalidArgumentError(f"cloud must be an address in another process, got {options['cloud']!r}.")
        self._numbers = itertools.count(1)
        self._futures: dict[int, Future[Any]] = {}
        self._lock = threading.Lock()
        self._process = subprocess.Popen(  # noqa: S603 - a fixed program, whose arguments come through the pipe
            [sys.executable, "-c", _PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        started = self._futures[0] = Future()
        self._reader = threading.Thread(target=self._read, name="device-reader", daemon=True)
        self._reader.start()
        setup = cloudpickle.dumps((list(catalogs), options, hard_limit_bytes))  # type: ignore[no-untyped-call]
        try:
            self._write(pickle.dumps(sys.path) + setup)
            started.result()
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
        future: Future[Any] = Future()
        future.set_running_or_notify_cancel()
        number = next(self._numbers)
        self._futures[number] = future
        try:
            self._write(pickle.dumps((number, name, arguments, deadline_s)))
        except (OSError, ValueError) as error:
            self._futures.pop(number, None)
            if not future.done():
                raise DeviceClosedError("The process of the device has ended. Make a new one.") from error
        return future

    def _write(self, content: bytes) -> None:
        with self._lock:
            assert self._process.stdin is not None
            self._process.stdin.write(content)
            self._process.stdin.flush()

    def _read(self) -> None:
        """Settle the futures of the answers; the end of the process settles all others."""
        assert self._process.stdout is not None
        while True:
            try:
                number, result, error = pickle.load(self._process.stdout)  # noqa: S301 - from the child
            except (EOFError, pickle.UnpicklingError):
                break
            future = self._futures.pop(number)
            future.set_exception(error) if error is not None else future.set_result(result)
        code = self._process.wait()
        for number in list(self._futures):
            self._futures.pop(number).set_exception(
                DeviceClosedError(f"The process of the device ended with code {code}. Make a new one.")
            )
