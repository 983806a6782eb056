"""Users sign in by a one-time token or a password, and programs by an access token."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("fastapi")
pytest.importorskip("sqlalchemy")

from fastapi import APIRouter, Depends
from sqlalchemy import create_engine, text
from web_shell import Shell

from optimizer.errors import InvalidArgumentError
from udfs.web import (
    Accounts,
    ApiError,
    Page,
    Principal,
    WebSettings,
    _accounts,
    _passwords,
    create_app,
    editor,
    runner,
    viewer,
)
from udfs.web._attempts import Attempts

if TYPE_CHECKING:
    from pathlib import Path

ADA = Principal("ada", "editor")


@pytest.fixture(autouse=True)
def fast_scrypt(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_passwords, "_N", 16)  # scrypt is slow on purpose


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    router = APIRouter()

    def reply(principal: Principal = Depends(viewer)) -> str:  # noqa: B008 - as FastAPI has it
        return principal.name

    router.add_api_route("/api/v1/read", reply)
    router.add_api_route("/api/v1/edit", lambda: "", methods=["POST"], dependencies=[Depends(editor)])
    router.add_api_route("/api/v1/report", lambda: "", methods=["POST"], dependencies=[Depends(runner)])
    return Shell.create(tmp_path, [Page("/read", "Read", router)])


def sign_in(shell: Shell, token: str) -> Any:
    return shell.client(Accept="text/html").get("/sign-in", params={"token": token})


def test_the_printed_address_signs_in_once_and_leaves_no_token(shell: Shell) -> None:
    token = shell.accounts.create_one_time_token(ADA)
    browser = shell.client(Accept="text/html")
    browser.follow_redirects = True
    page = browser.get(f"{shell.settings.url}?token={token}")
    assert (page.status_code, str(page.url)) == (200, shell.settings.url)
    assert "ada (editor)" in page.text
    other = sign_in(shell, token)
    assert other.status_code == 403
    assert "used before" in other.text
    assert "set-cookie" not in other.headers


def test_a_token_leaves_the_address_of_a_browser_that_is_signed_in(shell: Shell) -> None:
    token = shell.accounts.create_one_time_token(ADA)
    reply = shell.browser().get("/", params={"token": token})
    assert (reply.status_code, reply.headers["location"]) == (303, f"/sign-in?token={token}")


@pytest.mark.parametrize(("root_path", "path"), [("", "/"), ("/user/ada", "/user/ada")])
def test_the_cookie_is_for_this_server_alone(tmp_path: Path, root_path: str, path: str) -> None:
    shell = Shell.create(tmp_path, root_path=root_path)
    reply = sign_in(shell, shell.accounts.create_one_time_token(ADA))
    assert (reply.status_code, reply.headers["location"]) == (303, f"{root_path}/")
    first, *flags = reply.headers["set-cookie"].split("; ")
    assert first.startswith("cerebro-session-8765=")
    assert {flag.lower() for flag in flags} == {"httponly", "samesite=strict", f"path={path}", "max-age=604800"}


def test_a_cookie_of_tls_is_sent_over_tls_only(tmp_path: Path) -> None:
    shell = Shell.create(tmp_path, certificate="server.pem", key="server.key")
    reply = sign_in(shell, shell.accounts.create_one_time_token(ADA))
    assert "; Secure" in reply.headers["set-cookie"]


def test_a_password(shell: Shell) -> None:
    shell.accounts.set_user("ada & co", "viewer", "correct horse + 1")
    browser = shell.client(Origin=shell.origin)
    for name, password in (("ada & co", "correct horse"), ("bob", "correct horse + 1"), ("", ""), ("ada & co", "")):
        reply = browser.post("/sign-in", data={"name": name, "password": password})
        assert (reply.status_code, "set-cookie" in reply.headers) == (403, False)
    assert browser.post("/sign-in", data={"name": "ada & co", "password": "correct horse + 1"}).status_code == 303
    assert browser.get("/api/v1/read").json() == "ada & co"


def test_a_sign_in_ends_the_session_before(shell: Shell) -> None:
    shell.accounts.set_user("ada", "viewer", "correct horse")
    browser = shell.browser()
    former = browser.cookies[shell.cookie]
    assert browser.post("/sign-in", data={"name": "ada", "password": "correct horse"}).status_code == 303
    assert shell.accounts.principal_of_session(former) is None


def test_sign_out_ends_the_session(shell: Shell) -> None:
    for role in ("viewer", "editor"):
        browser = shell.browser(role)
        session = browser.cookies[shell.cookie]
        reply = browser.post("/sign-out")
        assert reply.status_code == 204
        assert reply.headers["set-cookie"].startswith(f'{shell.cookie}=""; ')
        assert "; Max-Age=0; Path=/; " in reply.headers["set-cookie"]
        assert shell.accounts.principal_of_session(session) is None


def test_a_browser_without_a_session_is_sent_to_the_sign_in(shell: Shell) -> None:
    reply = shell.client(Accept="text/html").get("/read")
    assert (reply.status_code, reply.headers["location"]) == (303, "/sign-in")
    reply = shell.client(Accept="text/html").get("/api/v1/read")
    assert (reply.status_code, reply.json()["error"]["code"]) == (401, "signed_out")


@pytest.mark.parametrize(
    ("role", "statuses"),
    [
        ("viewer", (200, 403, 403)),
        ("editor", (200, 200, 403)),
        ("runner", (200, 403, 200)),
        ("owner", (200, 200, 200)),
    ],
)
def test_roles(shell: Shell, role: str, statuses: tuple[int, ...]) -> None:
    for client in (shell.program(role), shell.browser(role)):
        replies = [client.get("/api/v1/read"), client.post("/api/v1/edit"), client.post("/api/v1/report")]
        assert tuple(reply.status_code for reply in replies) == statuses


def test_a_session_ends(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    accounts = shell.accounts
    accounts.set_user("ada", "editor", "correct horse")
    monkeypatch.setattr(_accounts, "SESSION_S", -1)
    assert accounts.principal_of_session(accounts.open_session(ADA)) is None
    monkeypatch.undo()
    monkeypatch.setattr(_passwords, "_N", 16)
    for end in (
        lambda: accounts.set_user("ada", "viewer", "correct horse"),
        lambda: accounts.set_program("ada", "viewer"),
        lambda: accounts.remove("ada"),
    ):
        session = accounts.open_session(ADA)
        assert accounts.principal_of_session(session) == ADA
        end()
        assert accounts.principal_of_session(session) is None
    assert accounts.sign_in("ada", "correct horse") is None


def test_a_session_survives_the_server(shell: Shell, tmp_path: Path) -> None:
    session = shell.accounts.open_session(ADA)
    assert Shell.create(tmp_path).accounts.principal_of_session(session) == ADA


def test_an_account_has_a_password_and_a_token(shell: Shell) -> None:
    token = shell.accounts.set_program("ada", "editor")
    shell.accounts.set_user("ada", "viewer", "correct horse")
    assert shell.accounts.principal_of_token(token) == Principal("ada", "viewer")
    assert shell.accounts.sign_in("ada", "correct horse") == Principal("ada", "viewer")


def test_the_database_contains_no_secret(tmp_path: Path) -> None:
    engine = create_engine(f"sqlite:///{tmp_path / 'server.db'}")
    accounts = Accounts(engine)
    accounts.set_user("ada", "editor", "correct horse")
    secrets = ["correct horse", accounts.set_program("cluster", "runner"), accounts.open_session(ADA)]
    with engine.connect() as connection:
        rows = [
            str(row) for table in ("users", "sessions") for row in connection.execute(text(f"select * from {table}"))
        ]
    assert len(rows) == 3
    assert not [secret for secret in secrets for row in rows if secret in row]


@pytest.mark.parametrize(
    ("name", "role", "password", "message"),
    [
        ("", "editor", "correct horse", "name must have 1 to 100 printable characters, got ''."),
        ("a\nb", "editor", "correct horse", "name must have"),
        ("a" * 101, "editor", "correct horse", "name must have"),
        ("ada", "owner", "correct horse", "role must be 'viewer' or 'editor', got 'owner'."),
        ("ada", "editor", "short", "password must have 8 to 1000 characters, got 5."),
    ],
)
def test_a_user_that_is_not_allowed(shell: Shell, name: str, role: str, password: str, message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        shell.accounts.set_user(name, role, password)


def test_an_access_token_that_can_be_guessed(shell: Shell) -> None:
    for store in (
        lambda: shell.accounts.set_program("cluster", "runner", "guess"),
        lambda: shell.accounts.trust("guess", ADA),
    ):
        with pytest.raises(InvalidArgumentError, match="token must have at least 16 characters, got 5"):
            store()


def test_the_limit_of_attempts_counts_the_last_minute_and_each_key() -> None:
    now = [0.0]
    attempts = Attempts(2, lambda: now[0])
    assert [attempts.begin(["address a", "user ada"]) for _ in range(3)] == [True, True, False]
    assert not attempts.begin(["address b", "user ada"])
    assert not attempts.begin(["address a", "user bob"])
    assert attempts.begin(["address b", "user bob"])
    now[0] = 61.0
    assert [attempts.begin(["address a", "user ada"]) for _ in range(3)] == [True, True, False]
    attempts.withdraw(["address a", "user ada"])
    assert [attempts.begin(["address a", "user ada"]) for _ in range(2)] == [True, False]
    now[0] = 200.0
    assert [attempts.begin([f"user {number}"]) for number in range(10_002)][-1]
    assert len(attempts._times) == 10_002  # those of the last minute
    now[0] = 300.0
    assert attempts.begin(["user ada"])
    assert len(attempts._times) == 1


def test_a_sign_in_does_not_make_room_for_guesses(shell: Shell) -> None:
    shell.accounts.set_user("eve", "viewer", "correct horse")
    browser, statuses = shell.client(Origin=shell.origin), []
    for number in range(10):
        browser.post("/sign-in", data={"name": f"user {number}", "password": "guess"})
        statuses.append(browser.post("/sign-in", data={"name": "eve", "password": "correct horse"}).status_code)
    assert statuses == [303] * 9 + [429]


def test_a_form_of_other_fields(shell: Shell) -> None:
    browser = shell.client(Origin=shell.origin)
    for content, status in ((b"", 403), (b"name=%ff&password=%00", 403), (b"\xff", 422), (b"a=1&" * 20, 422)):
        assert browser.post("/sign-in", content=content).status_code == status


def test_the_refusal_says_when_to_try_again(shell: Shell) -> None:
    browser = shell.client(Origin=shell.origin)
    replies = [browser.post("/sign-in", data={"name": f"user {number}", "password": "x"}) for number in range(11)]
    assert [reply.status_code for reply in replies] == [403] * 10 + [429]
    assert replies[-1].headers["retry-after"] == "60"


def test_a_locked_database_is_told_and_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "server.db"
    accounts = Accounts(create_engine(f"sqlite:///{path}", connect_args={"timeout": 0}))
    shell = Shell(WebSettings(), accounts, create_app(WebSettings(), accounts))
    browser, reader = shell.browser(), shell.program("viewer")
    token = accounts.create_one_time_token(ADA)
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("begin immediate")
        for reply in (browser.post("/sign-out"), shell.client().get("/sign-in", params={"token": token})):
            assert (reply.status_code, reply.json()["error"]["code"]) == (503, "database")
            assert "database is locked. Nothing was changed" in reply.json()["error"]["message"]
            assert reply.headers["x-content-type-options"] == "nosniff"
        assert reader.get("/").status_code == 200
    assert browser.get("/").status_code == 200
    assert sign_in(shell, token).status_code == 303


def test_a_route_replies_with_its_error(tmp_path: Path) -> None:
    router = APIRouter()

    @router.get("/api/v1/conflict")
    @router.get("/conflict")
    def conflict(count: int = 0) -> None:
        raise ApiError(409, "conflict", f"revision must be 4, got {count} <script>.", {"Retry-After": "1"})

    shell = Shell.create(tmp_path, [Page("/conflict", "Conflict", router)])
    browser = shell.browser()
    reply = browser.get("/api/v1/conflict")
    assert (reply.status_code, reply.headers["retry-after"]) == (409, "1")
    assert reply.json() == {"error": {"code": "conflict", "message": "revision must be 4, got 0 <script>."}}
    page = browser.get("/conflict")
    assert (page.status_code, page.headers["retry-after"]) == (409, "1")
    assert "got 0 &lt;script&gt;." in page.text
    invalid = browser.get("/api/v1/conflict?count=many")
    assert (invalid.status_code, invalid.json()["error"]["code"]) == (422, "invalid")
    assert "query.count" in invalid.json()["error"]["message"]
    schema = browser.get("/api/v1/openapi.json").json()
    assert {"4XX", "200"} == schema["paths"]["/api/v1/conflict"]["get"]["responses"].keys()
    assert {"ErrorDocument", "ErrorDetail"} == schema["components"]["schemas"].keys()
    assert "/sign-in" not in schema["paths"]
    unknown = browser.get("/api/v1/unknown")
    assert (unknown.status_code, unknown.json()["error"]["code"]) == (404, "not_found")
