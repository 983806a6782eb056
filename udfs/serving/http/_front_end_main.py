"""Main program of a front-end process: ``python -m udfs.serving.http._front_end_main``.

The starting process sends the settings through the standard input, and closes it to end this process.
"""

from __future__ import annotations

import pickle
import socket
import sys
import threading
from typing import Any

from udfs.serving.http._remote_front_end import RemoteFrontEnd

__all__: list[str] = []

# Seconds between switches of Python threads: a request waits for as many turns of the other threads.
_SWITCH_S = 0.0005


def _main() -> None:
    settings: dict[str, Any] = pickle.load(sys.stdin.buffer)  # noqa: S301 - from the process that started this one
    sys.setswitchinterval(_SWITCH_S)
    front_end = RemoteFrontEnd(**settings["front_end"], started=_report_ready)
    threading.Thread(target=_end_with_parent, args=(front_end,), daemon=True).start()
    front_end.serve(socket.socket(fileno=settings["descriptor"]))


def _report_ready() -> None:
    sys.stdout.write("ready\n")
    sys.stdout.flush()


def _end_with_parent(front_end: RemoteFrontEnd) -> None:
    try:
        sys.stdin.buffer.read()
    finally:
        front_end.stop()


if __name__ == "__main__":
    _main()
