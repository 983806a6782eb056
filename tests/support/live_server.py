"""Server of steered searches in a thread, at a port of its own."""

from __future__ import annotations

import socket
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

import httpx

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

TOKEN = "token of the test"


@contextmanager
def live_server(database: Path, port: int = 0) -> Iterator[str]:
    """Serve for a block, and give the address. Programs with :data:`TOKEN` have all roles."""
    from cerebro_spark.steering.server import create_server, open_database
    from udfs.web import WebServer, WebSettings

    listener = socket.create_server(("127.0.0.1", port))
    settings = WebSettings(port=listener.getsockname()[1])
    engine = open_database(database)
    app = create_server(settings, engine, [])
    app.state.accounts.set_program("ada", "owner", TOKEN)
    server = WebServer(app, settings)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    try:
        yield settings.url
    finally:
        server.should_exit = True
        thread.join(20)
        assert not thread.is_alive(), "the server did not stop"
        listener.close()
        engine.dispose()


def http_client(url: str) -> httpx.Client:
    """Make a client with the token of the programs."""
    return httpx.Client(base_url=url, headers={"Authorization": f"Bearer {TOKEN}"}, timeout=30)
