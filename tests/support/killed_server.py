"""Server of steered searches in a process of its own, which a test kills at any moment."""

from __future__ import annotations

import multiprocessing
import os
import signal
import socket
import time
from pathlib import Path

import httpx

TOKEN = "token of the test"


def run_server(database: str, port: int) -> None:
    """Serve until the process is killed."""
    from cerebro_spark.steering.server import create_server, open_database
    from udfs.web import WebSettings, serve

    os.environ["CEREBRO_TOKEN"] = TOKEN
    app = create_server(WebSettings(port=port), open_database(Path(database)), [])
    serve(app, WebSettings(port=port), lambda _address: None)


class KilledServer:
    """Server that is killed and started again at the same port, with the same database."""

    def __init__(self, folder: Path) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self.database = folder / "server.sqlite"
        self.url = f"http://127.0.0.1:{self.port}"
        # A process that has imported the server already, and forks a new one in no time.
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload(["cerebro_spark.steering.server", "uvicorn.protocols.http.auto"])
        self._process: multiprocessing.process.BaseProcess | None = None

    def client(self) -> httpx.Client:
        """Make a client with the token of the programs."""
        return httpx.Client(base_url=self.url, headers={"Authorization": f"Bearer {TOKEN}"}, timeout=30)

    def start(self) -> None:
        """Start the server, and wait until it answers."""
        self._process = self._context.Process(target=run_server, args=(str(self.database), self.port), daemon=True)
        self._process.start()
        while self._process.is_alive():
            try:
                httpx.get(self.url).close()
            except httpx.TransportError:
                time.sleep(0.01)
            else:
                return
        raise RuntimeError("the server did not start")

    def kill(self) -> None:
        """Kill the server."""
        assert self._process is not None and self._process.pid is not None
        os.kill(self._process.pid, signal.SIGKILL)
        self._process.join()
        assert self._process.exitcode == -signal.SIGKILL, "the server had ended before"
