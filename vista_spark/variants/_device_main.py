"""Program of a device's process: requests come as pickles from its parent, answers go back."""

from __future__ import annotations

import os
import pickle
import re
import resource
import sys
import threading
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from optimizer.errors import CerebroError
from vista_spark.variants._runtime import Device

if TYPE_CHECKING:
    from concurrent.futures import Future

    from udfs.device import Answer

__all__ = ["main"]


def main() -> None:
    """Answer requests until the parent closes the pipe."""
    requests, answers = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what the code of a model prints is no answer
    lock = threading.Lock()

    def send(number: int, result: Any, error: BaseException | None) -> None:
        message = pickle.dumps((number, result, None if error is None else _portable(error)))
        with lock:
            answers.write(message)
            answers.flush()

    def settle(number: int, done: Future[Answer]) -> None:
        error = done.exception()
        send(number, None if error else done.result(), error)

    try:
        catalogs, options, hard_limit_bytes = pickle.load(requests)  # noqa: S301 - from the parent
        device = Device(catalogs, **options)
    except Exception as error:  # noqa: BLE001 - the parent raises it
        send(0, None, error)
        return
    if hard_limit_bytes is not None:
        _limit_memory(hard_limit_bytes)
    send(0, None, None)
    with device:
        while True:
            try:
                number, name, arguments, deadline_s = pickle.load(requests)  # noqa: S301 - from the parent
            except EOFError:
                return
            try:
                if name == "status":
                    send(number, {each: getattr(device, each) for each in arguments}, None)
                else:
                    device.submit(*arguments, deadline_s=deadline_s).add_done_callback(partial(settle, number))
            except Exception as error:  # noqa: BLE001 - the caller of the request gets it
                send(number, None, error)


def _portable(error: BaseException) -> BaseException:
    """Return an error that the parent can read: itself, or its text."""
    try:
        pickle.loads(pickle.dumps(error))  # noqa: S301 - of this process
    except Exception:  # noqa: BLE001 - any error of the user's class
        return CerebroError(f"{type(error).__name__}: {error}")
    return error


def _limit_memory(more_bytes: int) -> None:
    """Limit the memory that the process may allocate from now on."""
    match = re.search(r"VmData:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert match is not None
    most = (int(match[1]) << 10) + more_bytes
    resource.setrlimit(resource.RLIMIT_DATA, (most, most))
