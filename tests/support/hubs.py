"""A hub of networks on this machine: the few requests that ``huggingface_hub`` makes to download a repository."""

from __future__ import annotations

import hashlib
import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["hub"]

_COMMIT = "0123456789abcdef0123456789abcdef01234567"


class _Handler(BaseHTTPRequestHandler):
    """Answers for the repositories of its server."""

    server: _Server

    def do_HEAD(self) -> None:
        self._answer(body=False)

    def do_GET(self) -> None:
        self._answer(body=True)

    def log_message(self, *_: object) -> None:
        pass

    def _answer(self, *, body: bool) -> None:
        path = self.path.partition("?")[0]
        name = next((name for name in self.server.repositories if f"/{name}/" in f"{path}/"), None)
        if name is None:
            self._send(404, b"", {"X-Error-Code": "RepoNotFound"}, body=body)
            return
        files = {file.name: file.read_bytes() for file in self.server.repositories[name].iterdir()}
        if "/resolve/" in path:
            self._send_file(path.rpartition("/")[2], files, body=body)
        elif "/revision/" in path and not path.endswith(("/main", _COMMIT)):
            self._send(404, b"", {"X-Error-Code": "RevisionNotFound"}, body=body)
        elif "/tree/" in path:
            listed = [
                {"type": "file", "path": file, "size": len(content), "oid": hashlib.sha256(content).hexdigest()[:40]}
                for file, content in files.items()
            ]
            self._send(200, json.dumps(listed).encode(), {}, body=body)
        else:
            about = {"id": name, "sha": _COMMIT, "siblings": [{"rfilename": file} for file in files]}
            self._send(200, json.dumps(about).encode(), {}, body=body)

    def _send_file(self, name: str, files: dict[str, bytes], *, body: bool) -> None:
        if body:
            self.server.sent.append(name)
        etag = hashlib.sha256(files[name]).hexdigest()
        self._send(200, files[name], {"ETag": f'"{etag}"', "X-Repo-Commit": _COMMIT}, body=body)

    def _send(self, status: int, content: bytes, headers: dict[str, str], *, body: bool) -> None:
        self.send_response(status)
        lengths = {"Content-Length": str(len(content)), "Content-Type": "application/json"}
        for key, value in (lengths | headers).items():
            self.send_header(key, value)
        self.end_headers()
        if body:
            self.wfile.write(content)


class _Server(ThreadingHTTPServer):
    def __init__(self, repositories: dict[str, Path]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.repositories = repositories
        self.sent: list[str] = []


@contextmanager
def hub(repositories: dict[str, Path]) -> Iterator[tuple[str, list[str]]]:
    """Serve folders under the names of repositories while the block runs; give the address and the files sent."""
    server = _Server(repositories)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", server.sent
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
