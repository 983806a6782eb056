"""Steering server with its pages, in a thread of a test."""

from __future__ import annotations

import socket
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from fake_runner import FakeRunner

from cerebro_spark.steering.pages import PAGE
from cerebro_spark.steering.server import create_server, open_database
from udfs.web import Page, Principal, WebServer, WebSettings

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["RUNNER_TOKEN", "Server"]

RUNNER_TOKEN = "access-token-of-a-test"


@dataclass
class Server:
    """Server of a test, which can be stopped and started again on its port and database."""

    folder: Path
    port: int = 0
    root_path: str = ""
    allowed_hosts: tuple[str, ...] = ()
    pages: tuple[Page, ...] = (PAGE,)
    _running: list[tuple[WebServer, threading.Thread]] = field(default_factory=list)

    def start(self) -> None:
        listener = socket.create_server(("127.0.0.1", self.port))
        self.port = listener.getsockname()[1]
        self.engine = open_database(self.folder / "server.sqlite")
        self.settings = WebSettings(port=self.port, root_path=self.root_path, allowed_hosts=self.allowed_hosts)
        app = create_server(self.settings, self.engine, self.pages)
        self.accounts = app.state.accounts
        self.accounts.set_program("runner", "runner", RUNNER_TOKEN)
        server = WebServer(app, self.settings)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()
        self._running.append((server, thread))

    def stop(self) -> None:
        while self._running:
            server, thread = self._running.pop()
            server.should_exit = True
            thread.join(30)
            assert not thread.is_alive()
            self.engine.dispose()

    def link(self, name: str = "ada", role: str = "editor") -> str:
        """Return an address that signs a user in, once."""
        return f"{self.settings.url}?token={self.accounts.create_one_time_token(Principal(name, role))}"

    def url(self, path: str = "") -> str:
        return f"{self.settings.url}{path}"

    def runner(self, run: str = "adult", **settings: Any) -> FakeRunner:
        return FakeRunner(self.port, RUNNER_TOKEN, run, **settings)
