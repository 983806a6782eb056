"""The shell in a browser: sign-in, its script and style under the policy, and pages of other origins."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("fastapi")
pytest.importorskip("sqlalchemy")

from browser import Page as BrowserPage
from browser import open_page
from fastapi import APIRouter
from web_shell import Shell, free_port, running

from udfs.web import Page, Principal

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.browser

# A page of another port, to which the browser sends the cookie: ports belong to the same site.
ATTACK = """<!doctype html><title>attack</title><body><script>
window.seen = [];
async function attack(server) {
  const tries = {
    read: () => fetch(server + "/api/v1/secret", {credentials: "include"}).then((reply) => reply.text()),
    change: () => fetch(server + "/api/v1/change", {method: "POST", mode: "no-cors", credentials: "include"}),
    remove: () => fetch(server + "/api/v1/change", {method: "DELETE", credentials: "include"}),
    token: () => fetch(server + "/api/v1/change",
      {method: "POST", credentials: "include", headers: {"X-CSRF-Token": "0".repeat(64)}}),
  };
  for (const [name, request] of Object.entries(tries)) {
    try { window.seen.push(name + " " + (await request())); } catch (error) { window.seen.push(name + " failed"); }
  }
  const form = document.createElement("form");
  form.method = "post"; form.target = "answer"; form.action = server + "/api/v1/change";
  const answer = document.createElement("iframe");
  answer.name = "answer";
  document.body.append(answer, form);
  form.submit();
  await new Promise((resolve) => { answer.onload = resolve; });
  return window.seen;
}
</script>"""


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrowserPage]:
    with open_page(tmp_path_factory.mktemp("browser")) as page:
        yield page


class Server:
    def __init__(self, folder: Path) -> None:
        router = APIRouter()
        self.changes: list[str] = []
        self.reads = 0

        @router.get("/api/v1/secret")
        def secret() -> str:
            self.reads += 1
            return "secret"

        @router.api_route("/api/v1/change", methods=["POST", "DELETE"])
        def change(body: dict | None = None) -> dict:
            self.changes.append("change")
            return {"changed": body}

        self.shell = Shell.create(folder, [Page("/api", "Other", router)], port=free_port())
        self.shell.accounts.set_user("ada", "editor", "correct horse")

    def address(self) -> str:
        token = self.shell.accounts.create_one_time_token(Principal("ada", "editor"))
        return f"{self.shell.settings.url}?token={token}"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    server = Server(tmp_path)
    with running(server.shell.app, server.shell.settings):
        yield server


@contextmanager
def page_of_another_origin() -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(ATTACK.encode())

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as other:
        other.daemon_threads = True
        thread = threading.Thread(target=other.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{other.server_port}/"
        other.shutdown()


def test_the_printed_address_the_script_and_the_style(browser: BrowserPage, server: Server) -> None:
    browser.visit(server.address())
    assert browser.wait("location.search === '' && document.body?.innerText.includes('ada (editor)')")
    assert browser.value("location.href") == server.shell.settings.url
    assert browser.value("document.cookie") == ""
    assert browser.value("getComputedStyle(document.body).color") == "rgb(27, 31, 36)"
    browser.value("import('/static/udfs.web/shell.js').then((shell) => { window.shell = shell; })")
    assert browser.value("shell.send('/api/v1/change', {method: 'POST', body: {a: 1}})") == {"changed": {"a": 1}}
    assert browser.value("shell.send('/api/v1/unknown').catch((e) => [e.status, e.code])") == [404, "not_found"]
    assert browser.value("fetch('/api/v1/change', {method: 'POST'}).then((reply) => reply.status)") == 403
    assert browser.value("[shell.user.name, shell.user.role, shell.root]") == ["ada", "editor", ""]
    # Markup that a page inserts by mistake runs no script.
    browser.value("document.body.insertAdjacentHTML('beforeend', '<img src=x onerror=\"window.ran = 1\">')")
    browser.value("new Promise((done) => { const image = new Image(); image.onerror = done; image.src = '/x'; })")
    assert browser.value("window.ran === undefined")
    browser.value("document.getElementById('sign-out').click()")
    browser.wait("location.pathname === '/sign-in'")
    browser.visit(server.shell.settings.url)
    assert browser.wait("location.pathname === '/sign-in'")


def test_the_form_signs_in(browser: BrowserPage, server: Server) -> None:
    browser.visit(server.shell.settings.url)
    browser.wait("location.pathname === '/sign-in'")
    fill = "document.getElementById('name').value = 'ada'; document.getElementById('password').value = '{}';"
    browser.value(f"{fill.format('a wrong one')} document.querySelector('form button').click()")
    browser.wait("document.querySelector('[role=alert]')?.innerText.includes('The name or the password is wrong.')")
    browser.value(f"{fill.format('correct horse')} document.querySelector('form button').click()")
    assert browser.wait("location.pathname === '/' && document.body?.innerText.includes('ada (editor)')")


def test_a_page_of_another_port_neither_reads_nor_changes(browser: BrowserPage, server: Server) -> None:
    browser.visit(server.address())
    browser.wait("location.search === '' && document.readyState === 'complete'")
    url = server.shell.settings.url.removesuffix("/")
    with page_of_another_origin() as other:
        browser.visit(other)
        seen = browser.value(f"attack('{url}')")
    assert seen == ["read failed", "change failed", "remove failed", "token failed"]
    assert server.reads == 1  # the browser sent the cookie, so that the server alone refuses the changes
    assert server.changes == []
