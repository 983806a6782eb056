"""Attacks fail, and succeed where the protection against them is switched off."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("fastapi")
pytest.importorskip("sqlalchemy")

from fastapi import APIRouter, FastAPI, Request, WebSocket
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from starlette.responses import Response  # noqa: TC002 - FastAPI reads the annotations
from starlette.websockets import WebSocketDisconnect
from web_shell import Shell

from udfs.web import Page, WebSettings, _authentication, _passwords, _sign_in, render
from udfs.web._authentication import Authentication
from udfs.web._middleware import BodyLimit, HostCheck, SecurityHeaders

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pytest import MonkeyPatch  # noqa: PT013 - for the type

METHODS = ("POST", "PUT", "PATCH", "DELETE", "OPTIONS", "PURGE")
MIB = 1 << 20


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: MonkeyPatch) -> Shell:
    """An application whose own routes check nothing."""
    monkeypatch.setattr(_passwords, "_N", 16)  # scrypt is slow on purpose
    router = APIRouter()

    @router.get("/api/v1/secret")
    def secret() -> str:
        return "secret"

    @router.get("/greeting")
    def greeting(request: Request, name: str) -> Response:
        return render(request, "home.html", title=name)

    @router.get("/failure")
    def failure() -> None:
        raise RuntimeError("a traceback with a secret")

    @router.websocket("/socket")
    async def connect(socket: WebSocket) -> None:
        await socket.accept()
        await socket.send_text("secret")

    shell = Shell.create(tmp_path, [Page("/greeting", "Greeting", router)])

    async def change(request: Request) -> int:
        return len(await request.body())

    for method in METHODS:
        shell.app.add_api_route("/api/v1/change", change, methods=[method])
    shell.accounts.set_user("ada", "editor", "correct horse")
    return shell


class Everything(frozenset):
    def __contains__(self, _value: object) -> bool:
        return True


def without(middleware: type) -> Callable[[Shell, MonkeyPatch], None]:
    def switch_off(shell: Shell, _patch: MonkeyPatch) -> None:
        shell.app.user_middleware = [each for each in shell.app.user_middleware if each.cls is not middleware]
        assert len(shell.app.user_middleware) == 4

    return switch_off


def without_hosts(shell: Shell, patch: MonkeyPatch) -> None:
    without(HostCheck)(shell, patch)


def without_origins(_shell: Shell, patch: MonkeyPatch) -> None:
    patch.setattr(WebSettings, "origins", Everything())


def without_tokens_of_pages(_shell: Shell, patch: MonkeyPatch) -> None:
    patch.setattr(_authentication, "_has_csrf_token", lambda _request: True)


def without_roles(_shell: Shell, patch: MonkeyPatch) -> None:
    patch.setattr(_authentication, "_refused_change", lambda *_args, **_kwargs: None)


def without_limits_of_attempts(_shell: Shell, patch: MonkeyPatch) -> None:
    patch.setattr(_sign_in, "_check_rate", lambda *_args: None)


def without_escapes(shell: Shell, _patch: MonkeyPatch) -> None:
    shell.app.state.templates.autoescape = False
    shell.app.state.templates.cache.clear()


def read_by_rebinding(shell: Shell) -> bool:
    reply = shell.browser().get("/api/v1/secret", headers={"Host": "evil.example:8765"})
    return "secret" in reply.text


def read_by_another_port(shell: Shell) -> bool:
    return "secret" in shell.browser().get("/api/v1/secret", headers={"Host": "127.0.0.1:9999"}).text


def read_without_a_session(shell: Shell) -> bool:
    return "secret" in shell.client().get("/api/v1/secret").text


def read_the_schema_without_a_session(shell: Shell) -> bool:
    return "paths" in shell.client().get("/api/v1/openapi.json").text


def change_without_a_session(shell: Shell) -> bool:
    client = shell.client(Origin=shell.origin)
    return any(client.request(method, "/api/v1/change").status_code == 200 for method in METHODS)


def change_from_another_origin(shell: Shell) -> bool:
    """A page elsewhere has the cookie and, somehow, the token of the page."""
    origins = ("http://evil.example", "http://127.0.0.1:9999", "https://127.0.0.1:8765", "null", "")
    browser = shell.browser()
    return any(
        browser.request(method, "/api/v1/change", headers={"Origin": origin}).status_code == 200
        for method in METHODS
        for origin in origins
    )


def sign_in_from_another_origin(shell: Shell) -> bool:
    reply = shell.client(Origin="http://evil.example").post("/sign-in", content=form("ada", "correct horse"))
    return reply.status_code == 303


def change_without_the_token_of_the_page(shell: Shell) -> bool:
    browser, other = shell.browser(), shell.browser()
    tokens = ("", "0" * 64, other.headers["X-CSRF-Token"])
    return any(
        browser.request(method, "/api/v1/change", headers={"X-CSRF-Token": token}).status_code == 200
        for method in METHODS
        for token in tokens
    )


def change_as_a_viewer(shell: Shell) -> bool:
    viewer = shell.browser("viewer")
    return any(viewer.request(method, "/api/v1/change").status_code == 200 for method in METHODS)


def send_a_large_body(shell: Shell) -> bool:
    browser = shell.browser()
    parts = (b"x" * MIB for _ in range(3))  # without Content-Length
    return any(
        browser.post("/api/v1/change", content=content).status_code == 200 for content in (b"x" * (MIB + 1), parts)
    )


def guess_a_password(shell: Shell) -> bool:
    client = shell.client(Origin=shell.origin)
    guesses = [*(f"guess {number}" for number in range(10)), "correct horse"]
    return [client.post("/sign-in", content=form("ada", guess)).status_code for guess in guesses][-1] == 303


def run_a_script(shell: Shell) -> bool:
    return "<script>alert" in shell.browser().get("/greeting", params={"name": "<script>alert(1)</script>"}).text


def load_a_script_from_elsewhere(shell: Shell) -> bool:
    """Each response forbids inline scripts, frames and guesses of types, those of errors included."""
    browser = shell.browser()
    replies = [
        browser.get("/"),
        browser.get("/unknown"),
        browser.get("/failure"),
        browser.get("/static/udfs.web/shell.js"),
        shell.client().get("/api/v1/secret"),
    ]
    policies = [reply.headers.get("content-security-policy", "") for reply in replies]
    assert not [policy for policy in policies if "unsafe" in policy]
    return not all(
        "default-src 'none'; script-src 'self'; style-src 'self';" in reply.headers.get("content-security-policy", "")
        and "frame-ancestors 'none'" in reply.headers["content-security-policy"]
        and reply.headers["x-content-type-options"] == "nosniff"
        and reply.headers["x-frame-options"] == "DENY"
        for reply in replies
    )


def open_a_web_socket(shell: Shell) -> bool:
    try:
        with shell.client().websocket_connect("/socket") as socket:
            return socket.receive_text() == "secret"
    except WebSocketDisconnect:
        return False


def form(name: str, password: str) -> str:
    return f"name={name}&password={password}"


ATTACKS = [
    (read_by_rebinding, without_hosts),
    (read_by_another_port, without_hosts),
    (read_without_a_session, without(Authentication)),
    (read_the_schema_without_a_session, without(Authentication)),
    (change_without_a_session, without(Authentication)),
    (change_from_another_origin, without_origins),
    (sign_in_from_another_origin, without_origins),
    (change_without_the_token_of_the_page, without_tokens_of_pages),
    (change_as_a_viewer, without_roles),
    (send_a_large_body, without(BodyLimit)),
    (guess_a_password, without_limits_of_attempts),
    (run_a_script, without_escapes),
    (load_a_script_from_elsewhere, without(SecurityHeaders)),
    (open_a_web_socket, without(SecurityHeaders)),
]


@pytest.mark.parametrize(("attack", "switch_off"), ATTACKS, ids=[attack.__name__ for attack, _ in ATTACKS])
def test_an_attack_fails_because_of_its_protection(
    tmp_path: Path, shell: Shell, monkeypatch: MonkeyPatch, attack: Callable, switch_off: Callable
) -> None:
    assert not attack(shell)
    shell.app.middleware_stack = None  # built again by the next request
    switch_off(shell, monkeypatch)
    assert attack(shell)


def test_an_editor_with_the_token_of_the_page_changes_state(shell: Shell) -> None:
    browser = shell.browser()
    assert {browser.request(method, "/api/v1/change").status_code for method in METHODS} == {200}
    assert browser.post("/api/v1/change", content=b"x" * MIB).json() == MIB


def test_a_program_needs_neither_origin_nor_token_of_a_page(shell: Shell) -> None:
    runner = shell.program()
    assert runner.post("/api/v1/change").status_code == 200
    # A wrong access token is not made good by a session.
    browser = shell.browser()
    assert browser.get("/api/v1/secret", headers={"Authorization": "Bearer guessed"}).status_code == 401
    assert browser.get("/api/v1/secret", headers={"Authorization": "Basic YWRhOmFkYQ=="}).status_code == 401


def test_runners_alone_send_large_bodies(shell: Shell) -> None:
    large = b"x" * (MIB + 1)
    assert shell.program("runner").post("/api/v1/change", content=large).json() == MIB + 1
    too_large = shell.program("runner").post("/api/v1/change", content=b"x" * (64 * MIB + 1))
    assert too_large.status_code == 413
    assert "67,108,864 bytes" in too_large.text
    others = [shell.program("editor"), shell.browser(), shell.browser("owner")]
    assert [other.post("/api/v1/change", content=large).status_code for other in others] == [413] * 3


@given(
    method=st.sampled_from(["GET", "HEAD", "PROPFIND", *METHODS]),
    path=st.sampled_from(
        ["/", "/api/v1/secret", "/api/v1/change", "/sign-in", "/sign-out", "/static/udfs.web/style.css"]
    ),
    query=st.text(st.characters(codec="ascii", exclude_categories=["C", "Z"])) | st.just("token=x"),
    headers=st.dictionaries(
        st.sampled_from(["host", "origin", "cookie", "authorization", "x-csrf-token", "accept", "content-type"]),
        st.binary(max_size=40)
        | st.sampled_from([b"127.0.0.1:8765", b"http://127.0.0.1:8765", b"Bearer \xff", b"a=\xff"]),
    ),
)
@settings(max_examples=50, phases=[Phase.generate], suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_header_opens_a_route_or_breaks_the_server(
    shell: Shell, method: str, path: str, query: str, headers: dict[str, bytes]
) -> None:
    reply = asyncio.run(ask(shell.app, method, path, query, {"host": b"127.0.0.1:8765", **headers}))
    public = path == "/sign-in" or path.startswith("/static/")
    assert reply in ({200, 303, 400, 401, 403, 405, 421, 422, 429} if public else {303, 401, 403, 421}), reply


async def ask(app: FastAPI, method: str, path: str, query: str, headers: dict[str, bytes]) -> int:
    """Ask without a client, which would refuse some headers."""
    messages: list[dict] = []
    bodies = [{"type": "http.request", "body": b"", "more_body": False}]
    sent = [(name.encode(), value) for name, value in headers.items()]
    scope = {"type": "http", "http_version": "1.1", "scheme": "http", "method": method, "path": path, "headers": sent}
    scope |= {"query_string": query.encode(), "raw_path": path.encode(), "client": ("127.0.0.1", 1), "root_path": ""}

    async def receive() -> dict:
        if bodies:
            return bodies.pop()
        await asyncio.Event().wait()  # the client stays
        raise AssertionError

    async def send(message: dict) -> None:
        messages.append(message)

    await app(scope, receive, send)
    return messages[0]["status"]


def test_an_unexpected_error_is_logged_and_not_replied(shell: Shell, caplog: pytest.LogCaptureFixture) -> None:
    reply = shell.browser().get("/failure")
    assert reply.status_code == 500
    assert "a traceback" not in reply.text
    assert "a traceback with a secret" in caplog.text
