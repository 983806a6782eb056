"""Server of steered searches in a process of its own, and its time on cores."""

from __future__ import annotations

import multiprocessing
import os
import secrets
import socket
import time
import urllib.error
import urllib.request
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from multiprocessing.process import BaseProcess

__all__ = ["server_process", "server_seconds"]


def _serve(database: str, port: int) -> None:
    from cerebro_spark.steering.pages import PAGE
    from cerebro_spark.steering.server import create_server, open_database
    from udfs.web import WebSettings, serve

    settings = WebSettings(port=port)
    serve(create_server(settings, open_database(Path(database)), [PAGE]), settings, lambda _address: None)


@contextmanager
def server_process(folder: Path) -> Iterator[tuple[str, BaseProcess]]:
    """Serve for a block; yield the address and the process. ``CEREBRO_TOKEN`` is set for programs of this process."""
    os.environ["CEREBRO_TOKEN"] = secrets.token_urlsafe(16)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    process = multiprocessing.get_context("spawn").Process(
        target=_serve, args=(str(folder / "server.sqlite"), port), daemon=True
    )
    process.start()
    while process.is_alive():
        try:
            urllib.request.urlopen(url, timeout=1).close()
        except urllib.error.HTTPError:
            break
        except OSError:
            time.sleep(0.05)
        else:
            break
    if not process.is_alive():
        raise RuntimeError(f"server must start, got exit code {process.exitcode}. Its error is printed above")
    try:
        yield url, process
    finally:
        process.terminate()
        process.join(30)


def server_seconds(process: BaseProcess) -> float:
    """Return the time of a process on cores, in seconds."""
    fields = Path(f"/proc/{process.pid}/stat").read_text("ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
