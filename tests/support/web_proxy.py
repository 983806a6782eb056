"""A reverse proxy that serves an application under a path prefix."""

from __future__ import annotations

import http.client
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["proxied"]

_HOP_BY_HOP = {"connection", "keep-alive", "transfer-encoding", "te", "trailer", "upgrade"}


@contextmanager
def proxied(proxy_port: int, target_port: int, prefix: str, *, strip: bool) -> Iterator[None]:
    """Forward requests below a prefix, which the proxy removes or passes on; other paths are not found."""

    class Handler(BaseHTTPRequestHandler):
        # The end of a response is the end of its connection.
        protocol_version = "HTTP/1.0"

        def forward(self) -> None:
            if not self.path.startswith(f"{prefix}/"):
                self.send_error(404)
                return
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            headers = {name: value for name, value in self.headers.items() if name.lower() not in _HOP_BY_HOP}
            headers["X-Forwarded-Proto"] = "https"
            headers["X-Forwarded-For"] = "203.0.113.7"
            target = http.client.HTTPConnection("127.0.0.1", target_port, timeout=30)
            target.request(self.command, self.path.removeprefix(prefix) if strip else self.path, body, headers)
            reply = target.getresponse()
            self.send_response(reply.status)
            for name, value in reply.getheaders():
                if name.lower() not in _HOP_BY_HOP:
                    self.send_header(name, value)
            self.end_headers()
            while part := reply.read1(1 << 16):
                self.wfile.write(part)
                self.wfile.flush()
            target.close()

        do_GET = do_POST = do_DELETE = do_PUT = forward

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", proxy_port), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join(30)
