"""Server of the tests of the REST API, without a port."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from starlette.testclient import TestClient


@pytest.fixture
def clients(tmp_path: Path) -> Iterator[Callable[[str, Any], TestClient]]:
    """Make clients by name and role, of one server."""
    from starlette.testclient import TestClient

    from cerebro_spark.steering.server import create_server, open_database
    from udfs.web import WebSettings

    engine = open_database(tmp_path / "server.sqlite")
    settings = WebSettings()
    app = create_server(settings, engine, [])

    def make(name: str, role: Any) -> TestClient:
        token = app.state.accounts.set_program(name, role)
        return TestClient(app, base_url=settings.url, headers={"Authorization": f"Bearer {token}"})

    yield make
    engine.dispose()


@pytest.fixture
def ada(clients: Callable[[str, Any], TestClient]) -> TestClient:
    return clients("ada", "editor")
