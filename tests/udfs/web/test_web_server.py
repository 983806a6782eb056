"""The server process: exposure, TLS, path prefixes, its token file and its end."""

from __future__ import annotations

import http.client
import re
import signal
import ssl
import subprocess
import sys
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("fastapi")
pytest.importorskip("sqlalchemy")

from fastapi import APIRouter, Request
from http_client import Reply
from places import ROOT
from web_proxy import proxied
from web_shell import Shell, free_port, meta, running

from optimizer.errors import InvalidArgumentError
from udfs.rpc import new_credentials
from udfs.web import (
    EventSource,
    EventStream,
    ExposedServerError,
    Page,
    PortInUseError,
    Principal,
    StreamEvent,
    WebSettings,
    _passwords,
    render,
    serve,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from starlette.responses import Response

SERVER = """
import sys
from pathlib import Path
from fastapi import Request
from sqlalchemy import create_engine
from udfs.web import Accounts, EventSource, EventStream, StreamEvent, WebSettings, create_app, serve

settings = WebSettings(port=int(sys.argv[2]))
app = create_app(settings, Accounts(create_engine(f"sqlite:///{sys.argv[1]}/server.db")))
source = EventSource(lambda position, limit: [StreamEvent(1, {})] if position < 1 else [], app.state.changes)

@app.get("/events")
async def events(request: Request) -> EventStream:
    return EventStream(request, source)

serve(app, settings, lambda address: print(address, flush=True))
heavy = {"pyspark", "torch", "tensorflow", "numpy", "pandas", "pyarrow", "mlflow"} & sys.modules.keys()
print("ended without", sorted(heavy), flush=True)
"""


@pytest.fixture(autouse=True)
def configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_passwords, "_N", 16)  # scrypt is slow on purpose
    monkeypatch.delenv("CEREBRO_TOKEN", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


@contextmanager
def server_process(folder: Path, port: int) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Start a server in a process of its own, with the address that it printed."""
    command = [sys.executable, "-c", SERVER, str(folder), str(port)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process, process.stdout.readline().strip()
        finally:
            process.kill()


@contextmanager
def opened(port: int, path: str, **headers: str) -> Iterator[http.client.HTTPResponse]:
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=60)) as connection:
        connection.request("GET", path, headers=headers)
        yield connection.getresponse()


def ask(port: int, path: str, **headers: str) -> Reply:
    with opened(port, path, **headers) as reply:
        return Reply(reply.status, reply.headers, reply.read())


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_process_prints_its_address_and_ends_with_open_streams(tmp_path: Path, number: int) -> None:
    port = free_port()
    with server_process(tmp_path, port) as (process, address):
        assert address.startswith(f"http://127.0.0.1:{port}/?token=")
        path = address.partition(str(port))[2]
        assert ask(port, path.replace("/?", "/sign-in?")).status == 303
        token = (tmp_path / "config" / "cerebro" / "token").read_text().strip()
        with opened(port, "/events", Authorization=f"Bearer {token}") as stream:
            assert [stream.readline() for _ in range(3)] == [b": open\n", b"\n", b"id: 1\n"]
            process.send_signal(number)
            assert stream.read() == b"event: message\ndata: {}\n\n"
        # After SIGINT the caller goes on; SIGTERM ends the process, once the server has stopped.
        output = process.stdout.read()
        assert process.wait(60) == (0 if number == signal.SIGINT else -signal.SIGTERM)
        assert output == ("ended without []\n" if number == signal.SIGINT else "")


def test_no_log_contains_the_one_time_token(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    shell = Shell.create(tmp_path, port=free_port())
    token = shell.accounts.create_one_time_token(Principal("ada", "editor"))
    with caplog.at_level("DEBUG"), running(shell.app, shell.settings):
        for _ in range(2):
            ask(shell.settings.port, f"/?token={token}", Accept="text/html")
            ask(shell.settings.port, f"/sign-in?token={token}", Accept="text/html")
    assert "Application startup complete" in caplog.text  # the log of the server is on
    assert token not in caplog.text


def test_a_session_survives_a_killed_server(tmp_path: Path) -> None:
    port = free_port()
    with server_process(tmp_path, port) as (process, address):
        reply = ask(port, address.partition(str(port))[2].replace("/?", "/sign-in?"))
        cookie = reply.headers["set-cookie"].partition(";")[0]
        process.kill()
        process.wait(60)
    with server_process(tmp_path, port):
        assert ask(port, "/", Cookie=cookie).status == 200


def test_a_port_of_another_process(tmp_path: Path) -> None:
    shell = Shell.create(tmp_path, port=free_port())
    printed: list[str] = []
    with (
        running(shell.app, shell.settings),
        pytest.raises(PortInUseError, match=f"must be free, got {shell.settings.port}"),
    ):
        serve(shell.app, shell.settings, printed.append)
    assert not printed


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "203.0.113.7", "cerebro.example", ""])
@pytest.mark.parametrize("protection", [(), ("tls",), ("user",), ("program", "tls")])
def test_other_machines_need_users_and_tls(tmp_path: Path, host: str, protection: tuple[str, ...]) -> None:
    tls = {"certificate": "server.pem", "key": "server.key"} if "tls" in protection else {}
    shell = Shell.create(tmp_path, host=host, **tls)
    if "user" in protection:
        shell.accounts.set_user("ada", "editor", "correct horse")
    shell.accounts.set_program("cluster", "runner")
    with pytest.raises(ExposedServerError, match="for a server without users and TLS, got"):
        serve(shell.app, shell.settings)


@pytest.fixture
def tls(tmp_path: Path) -> dict[str, str]:
    credentials = new_credentials(encrypted=True)
    files = {"certificate": tmp_path / "server.pem", "key": tmp_path / "server.key"}
    files["certificate"].write_text(credentials.certificate)
    files["key"].write_text(credentials.key)
    return {name: str(path) for name, path in files.items()}


def test_tls_with_a_user_listens_everywhere(tmp_path: Path, tls: dict[str, str]) -> None:
    shell = Shell.create(tmp_path, host="0.0.0.0", port=free_port(), allowed_hosts=("cerebro.example",), **tls)
    shell.accounts.set_user("ada", "editor", "correct horse")
    context = ssl.create_default_context(cafile=tls["certificate"])
    context.check_hostname = False
    form = "name=ada&password=correct+horse"

    def sign_in(host: str, origin: str) -> Reply:
        address = ("127.0.0.1", shell.settings.port)
        with closing(http.client.HTTPSConnection(*address, context=context, timeout=60)) as connection:
            connection.request("POST", "/sign-in", form, {"Host": host, "Origin": origin})
            reply = connection.getresponse()
            return Reply(reply.status, reply.headers, reply.read())

    addresses: list[str] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("udfs.web._server.WebServer.run", lambda *_args, **_named: None)
        serve(shell.app, shell.settings, addresses.append)
    assert addresses[0].startswith("https://cerebro.example/?token=")
    with running(shell.app, shell.settings):
        reply = sign_in("cerebro.example", "https://cerebro.example")
        assert reply.status == 303
        assert "; Secure" in reply.headers["set-cookie"]
        assert sign_in("cerebro.example", "http://cerebro.example").status == 403
        assert sign_in("0.0.0.0", "https://cerebro.example").status == 421


def test_a_certificate_that_cannot_be_read(tmp_path: Path, tls: dict[str, str]) -> None:
    for name in ("key", "certificate"):
        (tmp_path / "other.pem").write_text("no certificate")
        shell = Shell.create(tmp_path, port=free_port(), **{**tls, name: str(tmp_path / "other.pem")})
        with pytest.raises(InvalidArgumentError, match="certificate and key must be a pair of PEM files, got "):
            serve(shell.app, shell.settings)


@pytest.mark.parametrize("strip", [True, False])
def test_a_page_works_behind_a_path_prefix(tmp_path: Path, strip: bool) -> None:
    prefix, port, target = "/user/ada/proxy/8765", free_port(), free_port()
    router = APIRouter()

    @router.get("/models/{name}")
    def model(request: Request, name: str) -> str:
        return str(request.url_for("model", name=name).path)

    @router.get("/models")
    def page(request: Request) -> Response:
        return render(request, "home.html", title="Models")

    @router.post("/api/v1/change")
    def change() -> str:
        return "changed"

    shell = Shell.create(
        tmp_path,
        [Page("/models", "Models", router)],
        port=target,
        root_path=prefix,
        allowed_hosts=(f"127.0.0.1:{port}",),
        behind_proxy=True,
    )
    source = EventSource(lambda position, _: [StreamEvent(1, {})] if position < 1 else [], shell.app.state.changes)

    @shell.app.get("/events")
    async def events(request: Request) -> EventStream:
        return EventStream(request, source)

    assert shell.settings.url == f"https://127.0.0.1:{port}{prefix}/"
    token = shell.accounts.create_one_time_token(Principal("ada", "editor"))
    html = {"Accept": "text/html"}
    with running(shell.app, shell.settings), proxied(port, target, prefix, strip=strip):
        first = ask(port, f"{prefix}/?token={token}", **html)
        assert (first.status, first.headers["location"]) == (303, f"{prefix}/sign-in?token={token}")
        second = ask(port, first.headers["location"], **html)
        assert (second.status, second.headers["location"]) == (303, f"{prefix}/")
        cookie, *flags = second.headers["set-cookie"].split("; ")
        # The proxy says that the browser uses TLS.
        assert {f"Path={prefix}", "Secure"} <= set(flags)
        reply = ask(port, f"{prefix}/models", Cookie=cookie, **html)
        text = reply.body.decode()
        links = re.findall(r'(?:href|src|action)="([^#][^"]*)"', text)
        assert len(links) == 4
        assert {ask(port, link, Cookie=cookie, **html).status for link in links} == {200}
        assert ask(port, f"{prefix}/models/a", Cookie=cookie).body == f'"{prefix}/models/a"'.encode()
        assert meta(text, "root-path") == prefix
        headers = {"Cookie": cookie, "X-CSRF-Token": meta(text, "csrf-token"), "Origin": f"https://127.0.0.1:{port}"}
        with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=60)) as connection:
            connection.request("POST", f"{prefix}/api/v1/change", headers=headers)
            assert connection.getresponse().read() == b'"changed"'
        with opened(port, f"{prefix}/events", Cookie=cookie) as stream:
            assert [stream.readline() for _ in range(3)][-1] == b"id: 1\n"
        assert ask(port, f"{prefix}/models", **html).headers["location"] == f"{prefix}/sign-in"
        assert ask(port, f"{prefix}/api/v1/openapi.json").status == 401


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"port": 0}, r"port must be an int from 1 to 65535, got 0"),
        ({"port": 65_536}, r"port must be an int"),
        ({"port": "8765"}, r"port must be an int"),
        ({"body_limit": 0}, r"body_limit must be a positive int, got 0"),
        ({"report_limit": 1.5}, r"report_limit must be a positive int, got 1.5"),
        (
            {"root_path": "/a/"},
            r"root_path must be empty or a path such as '/cerebro' without a final slash, got '/a/'",
        ),
        ({"root_path": "a"}, r"root_path must be"),
        ({"root_path": "//evil.example"}, r"root_path must be"),
        ({"root_path": '/"><script>'}, r"root_path must be"),
        ({"certificate": "a.pem"}, r"certificate and key must be set together, got 'a.pem' and ''"),
        ({"key": "a.key"}, r"certificate and key must be set together"),
        ({"allowed_hosts": ("https://a",)}, r"allowed_hosts must contain host names such as .*, got 'https://a'"),
        ({"allowed_hosts": ("*",)}, r"allowed_hosts must contain"),
        ({"allowed_hosts": ("*.example.org",)}, r"allowed_hosts must contain"),
    ],
)
def test_settings_that_are_not_allowed(settings: dict, message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        WebSettings(**settings)


@pytest.mark.parametrize(
    ("settings", "hosts"),
    [
        ({"host": "localhost"}, {"127.0.0.1:8765", "localhost:8765", "[::1]:8765"}),
        ({"port": 80, "host": "::1"}, {f"{h}{p}" for h in ("127.0.0.1", "localhost", "[::1]") for p in ("", ":80")}),
        ({"host": "0.0.0.0", "allowed_hosts": ("Cerebro.example",)},
         {"127.0.0.1:8765", "localhost:8765", "[::1]:8765", "cerebro.example"}),
        ({"host": "2001:db8::7"}, {"127.0.0.1:8765", "localhost:8765", "[::1]:8765", "[2001:db8::7]:8765"}),
    ],
)  # fmt: skip
def test_the_hosts_of_settings(settings: dict, hosts: set[str]) -> None:
    assert WebSettings(**settings).hosts == hosts
