"""Server of searches for tests of the runner: its routes for runners, with faults on request."""

from __future__ import annotations

import json
import threading
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["TOKEN", "PlayedServer"]

TOKEN = "the secret of both"
_PREFIX = "/cerebro/api/v1/runner/experiments/"


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def handle_error(self, *_: object) -> None:
        """Ignore errors of connections, which the tests drop on purpose."""


class PlayedServer:
    """Server that keeps events by stream and number, and commands by id.

    ``fault`` is asked for each request: ``""``, ``"drop"`` the connection before the request is carried out,
    ``"forget"`` the reply after it, or ``"busy"``, status 503.
    """

    def __init__(self, fault: Callable[[], str] = lambda: "") -> None:
        self.fault = fault
        self.lock = threading.Condition()
        self.settings: dict[str, Any] = {}
        self.streams: dict[str, list[Any]] = {"orders": [], "units": []}
        self.commands: dict[str, dict[str, Any]] = {}
        self.tracebacks: dict[str, str] = {}
        self.ended: list[str] = []
        self.is_known = False
        self.problems: list[str] = []
        self._server: _Server | None = None
        self._port = 0

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self._port}/cerebro"

    def start(self) -> None:
        server = self

        class Handler(BaseHTTPRequestHandler):
            def _answer(self) -> None:
                server.answer(self)

            do_GET = do_POST = do_PUT = _answer

            def log_message(self, *_: object) -> None:
                """Print nothing."""

        self._server = _Server(("127.0.0.1", self._port), Handler)
        self._port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def stop(self) -> None:
        assert self._server is not None
        self._server.shutdown()
        self._server.server_close()

    @contextmanager
    def running(self) -> Iterator[PlayedServer]:
        self.start()
        try:
            yield self
        finally:
            self.stop()

    def go_away(self, seconds: float) -> None:
        self.stop()
        time.sleep(seconds)
        self.start()

    def forget_everything(self) -> None:
        """Lose the database."""
        with self.lock:
            self.is_known, self.ended = False, []
            self.streams, self.tracebacks = {"orders": [], "units": []}, {}

    def command(self, ident: str, document: dict[str, Any], user: str = "ada") -> None:
        with self.lock:
            values = {"id": ident, "command": document, "user": user, "created": 1764450000.5, "state": "pending"}
            self.commands[ident] = {**values, "result": {}}
            self.lock.notify_all()

    def until(self, condition: Callable[[], bool], seconds: float = 60.0) -> None:
        with self.lock:
            assert self.lock.wait_for(condition, seconds), "it takes too long"

    def states(self) -> dict[str, str]:
        with self.lock:
            return {ident: record["state"] for ident, record in self.commands.items()}

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        body = request.rfile.read(int(request.headers.get("Content-Length") or 0))
        fault = self.fault()
        if fault == "drop":
            return
        status, reply = (503, _error("busy")) if fault == "busy" else self._carry_out(request, body)
        if fault == "forget":
            return
        data = json.dumps(reply).encode()
        request.send_response(status)
        request.send_header("Content-Length", str(len(data)))
        request.end_headers()
        request.wfile.write(data)

    def _carry_out(  # noqa: PLR0911 - a reply for each route
        self, request: BaseHTTPRequestHandler, body: bytes
    ) -> tuple[int, dict[str, Any]]:
        if request.headers.get("Authorization") != f"Bearer {TOKEN}":
            return 401, _error("sign in")
        parts = urlsplit(request.path)
        assert parts.path.startswith(_PREFIX), parts
        _run, *rest = parts.path.removeprefix(_PREFIX).split("/")
        content = json.loads(body) if body else None
        with self.lock:
            try:
                if request.command == "PUT":
                    self.settings, self.is_known = content, True
                    return 200, self._next()
                if not self.is_known:
                    return 404, _error("no such run")
                match rest:
                    case ["events"]:
                        return self._take_events(content)
                    case ["ended"]:
                        self.ended.append(content["error"])
                        return 200, {}
                    case ["commands", ident]:
                        return self._settle(ident, content)
                self.lock.wait_for(lambda: bool(self._pending()), min(0.2, float(parse_qs(parts.query)["wait"][0])))
                return 200, {"commands": self._pending()}
            finally:
                self.lock.notify_all()

    def _next(self) -> dict[str, Any]:
        return {"next": {stream: len(documents) for stream, documents in self.streams.items()}}

    def _pending(self) -> list[dict[str, Any]]:
        return [record for record in self.commands.values() if record["state"] == "pending"]

    def _take_events(self, content: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        if content["stream"] == "trials":
            self.tracebacks |= {document["trial"]: document["traceback"] for _, document in content["documents"]}
            return 200, self._next()
        stored = self.streams[content["stream"]]
        for number, document in content["documents"]:
            if number > len(stored):
                self.problems.append(f"a gap before {number}")
                return 409, _error("a gap")
            if number == len(stored):
                stored.append(document)
                self._apply(document)
            elif stored[number] != document:
                self.problems.append(f"another document {number}")
        return 200, self._next()

    def _apply(self, document: Any) -> None:
        for result in document["results"] if isinstance(document, dict) else ():
            origin = result.get("origin")
            if origin and origin["command"] in self.commands:
                self.commands[origin["command"]]["state"] = "applied"

    def _settle(self, ident: str, content: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        record = self.commands[ident]
        if record["state"] not in {"pending", content["state"]}:
            self.problems.append(f"{ident} is {record['state']}, then {content['state']}")
        record["state"], record["result"] = content["state"], content
        return 200, {"command": record}


def _error(message: str) -> dict[str, Any]:
    return {"error": {"code": "played", "message": message}}
