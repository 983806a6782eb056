"""A web application with signed-in browsers, and a server that runs it."""

from __future__ import annotations

import re
import socket
import threading
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqlalchemy import create_engine
from starlette.testclient import TestClient
from waiting import until

from udfs.web import Accounts, Principal, WebServer, WebSettings, create_app

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from fastapi import FastAPI

__all__ = ["Shell", "free_port", "running"]


@dataclass
class Shell:
    settings: WebSettings
    accounts: Accounts
    app: FastAPI

    @classmethod
    def create(cls, folder: Path, pages: Any = (), **settings: Any) -> Shell:
        accounts = Accounts(create_engine(f"sqlite:///{folder / 'server.db'}"))
        chosen = WebSettings(**settings)
        return cls(chosen, accounts, create_app(chosen, accounts, pages))

    @property
    def origin(self) -> str:
        return self.settings.url.removesuffix(f"{self.settings.root_path}/")

    @property
    def cookie(self) -> str:
        return f"cerebro-session-{self.settings.port}"

    def client(self, **headers: str) -> TestClient:
        """Return a client that is not signed in."""
        client = TestClient(self.app, self.origin, raise_server_exceptions=False, follow_redirects=False)
        client.headers.update(headers)
        return client

    def browser(self, role: str = "editor", name: str = "ada") -> TestClient:
        """Return a client with a session, which sends what the shell's script sends."""
        client = self.client(Origin=self.origin, Accept="text/html")
        client.cookies.set(self.cookie, self.accounts.open_session(Principal(name, role)))
        client.headers["X-CSRF-Token"] = meta(client.get(f"{self.settings.root_path}/").text, "csrf-token")
        return client

    def program(self, role: str = "runner") -> TestClient:
        return self.client(Authorization=f"Bearer {self.accounts.set_program(role, role)}")


def meta(page: str, name: str) -> str:
    """Return the content of an element ``<meta>``."""
    match = re.search(rf'<meta name="{name}" content="([^"]*)"', page)
    assert match, page
    return match[1]


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


@contextmanager
def running(app: FastAPI, settings: WebSettings) -> Iterator[WebServer]:
    """Run the application in a thread."""
    server = WebServer(app, settings)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    try:
        until(lambda: server.started or not thread.is_alive())
        assert server.started
        yield server
    finally:
        server.should_exit = True
        thread.join(30)
        assert not thread.is_alive()
