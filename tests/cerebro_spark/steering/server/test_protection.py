"""Every route of the server needs a role, and a change from a browser needs the token of the page."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("fastapi")
pytest.importorskip("sqlalchemy")

from steered_runs import FakeRunner
from web_shell import Shell

from cerebro_spark.steering.server import create_server, open_database
from udfs.web import WebSettings

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

READS = {"GET"}
PAGES = {("GET", "/"), ("GET", "/experiments/r1"), ("GET", "/experiments/r1/data")}


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    engine = open_database(tmp_path / "server.sqlite")
    settings = WebSettings()
    app = create_server(settings, engine)
    yield Shell(settings, app.state.accounts, app)
    engine.dispose()


@pytest.fixture
def routes(shell: Shell) -> set[tuple[str, str]]:
    """Method and path of each route, the pages included."""
    paths = shell.app.openapi()["paths"]
    listed = {
        (method.upper(), re.sub("{[a-z0-9]+}", "c1", path.replace("{run}", "r1")))
        for path, operations in paths.items()
        for method in operations
    }
    assert {method for method, _ in listed} == {"GET", "POST", "PUT", "DELETE"}
    return listed | PAGES


def codes(client: object, routes: set[tuple[str, str]], **headers: str) -> set[tuple[int, str]]:
    """Status and code of the replies."""
    replies = [client.request(method, path, json={}, headers=headers) for method, path in routes]
    return {(reply.status_code, reply.json()["error"]["code"]) for reply in replies}


def test_a_request_without_a_session_is_refused(shell: Shell, routes: set[tuple[str, str]]) -> None:
    assert codes(shell.client(Origin=shell.origin), routes) == {(401, "signed_out")}
    assert codes(shell.client(), routes, Authorization="Bearer guessed") == {(401, "signed_out")}


def test_a_change_needs_the_origin_and_the_token_of_the_page(shell: Shell, routes: set[tuple[str, str]]) -> None:
    changes = {(method, path) for method, path in routes if method not in READS}
    browser = shell.browser("owner")
    assert codes(browser, changes, Origin="http://evil.example") == {(403, "origin")}
    assert codes(browser, changes, **{"X-CSRF-Token": "guessed"}) == {(403, "csrf")}


@pytest.mark.parametrize("role", ["viewer", "editor", "runner"])
def test_a_role_reaches_its_routes_alone(shell: Shell, routes: set[tuple[str, str]], role: str) -> None:
    for_runners = {(method, path) for method, path in routes if path.startswith("/api/v1/runner/")}
    for_editors = {(method, path) for method, path in routes - for_runners if method not in READS}
    assert len(for_runners) >= 10 and len(for_editors) >= 6
    forbidden = {"viewer": for_runners | for_editors, "editor": for_runners, "runner": for_editors}[role]
    for client in (shell.program(role), shell.browser(role)):
        assert codes(client, forbidden) == {(403, "forbidden")}
        # Streams of events do not end.
        for method, path in routes - forbidden - {("GET", "/api/v1/events")}:
            assert client.request(method, path, json={}).status_code not in {401, 403}, (method, path)


@pytest.mark.parametrize(
    ("content", "status"),
    [
        (b"[" * (1 << 20), 400),
        (b'{"command": ' * 80_000, 400),
        (b'{"command": "stop", "revision": ' + b"9" * 100_000 + b"}", 400),
        (b'{"command": "stop", "trial": "\xff"}', 422),
        (b'{"command": "add", "params": {"x": "\xed\xa0\x80"}}', 422),
        ('{"command": "add", "params": {"x": "\\ud800"}}'.encode("utf-16-le"), 422),
        (b'{"command": "add", "params": {"x": "\\uD800"}}', 422),
        (b'{"command": "add", "params": {"\\udfff\\ud800": 1}}', 422),
        (b"\x00" * 100, 422),
        (b"", 422),
        (b"x" * ((1 << 20) + 1), 413),
    ],
    ids=[
        "nested lists",
        "nested objects",
        "digits",
        "not utf-8",
        "bytes",
        "utf-16",
        "surrogate",
        "surrogates",
        "zeros",
        "empty",
        "large",
    ],
)
def test_a_hostile_body_is_refused(shell: Shell, content: bytes, status: int) -> None:
    """Whatever is stored can be read again, so that one request does not make a page fail for all."""
    FakeRunner(shell.program("runner")).begin("c000")
    headers = {"Content-Type": "application/JSON"}
    for path in ("/api/v1/experiments/r1/commands", "/api/v1/runner/experiments/r1/events"):
        reply = shell.browser("owner").post(path, content=content, headers=headers)
        assert (reply.status_code, len(reply.text) < 3000) == (status, True), reply.text[:300]
    assert shell.browser().get("/api/v1/experiments/r1/commands").json() == {"commands": []}
