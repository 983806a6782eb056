"""HTTP requests to the server, repeated while it is away."""

from __future__ import annotations

import http.client
import json
import time
import urllib.error
import urllib.request
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

from cerebro_spark.steering._errors import ServerError, UnreachableServerError
from optimizer.errors import InvalidArgumentError
from udfs.access_tokens import LOOPBACK_HOSTS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

__all__ = ["Connection"]

_Answer = TypeVar("_Answer")


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Handler that refuses redirects, which would take the token to another host."""

    def redirect_request(self, *_: object) -> None:
        """Return no request."""


_TIMEOUT_S = 30.0
# The server sends a comment each 15 seconds.
_SILENCE_S = 45.0
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.1, 2.0
# Statuses after which the same request may succeed.
_AGAIN = (429, 502, 503, 504)


class Connection:
    """Requests to one server.

    Every request may be repeated safely: those that change state have a key or the same effect twice. So a request is
    repeated while the server is away, for at most ``patience_s`` seconds.
    """

    def __init__(self, server: str, token: str | None, patience_s: float) -> None:
        address = urlsplit(server or "")
        if address.scheme not in {"http", "https"} or not address.hostname or "@" in address.netloc:
            raise InvalidArgumentError(f"server must be a URL such as 'http://127.0.0.1:8765', got {server!r}.")
        # The printed address has a one-time token, which programs do not use.
        self.server = f"{address.scheme}://{address.netloc}{address.path.rstrip('/')}"
        self._token, self._patience_s = token, patience_s
        # The proxies of the environment are for other machines.
        proxies = [urllib.request.ProxyHandler({})] if address.hostname in LOOPBACK_HOSTS else []
        self._open = urllib.request.build_opener(_NoRedirects, *proxies).open

    def request(
        self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None
    ) -> dict[str, Any]:
        """Send a request, and return the document of the answer.

        Raises
        ------
        ServerError
            The server refused the request.
        UnreachableServerError
            The server did not answer.
        """
        data = None if body is None else json.dumps(body).encode()
        return self._exchange(self._prepared(method, path, data, headers or {}), lambda text: dict(json.loads(text)))

    def upload(self, path: str, content: bytes) -> dict[str, Any]:
        """Send a file, and return the document of the answer; raise as :meth:`request`."""
        prepared = self._prepared("POST", path, content, {"Content-Type": "application/octet-stream"})
        return self._exchange(prepared, lambda text: dict(json.loads(text)))

    def download(self, path: str) -> bytes:
        """Return the content of a file; raise as :meth:`request`."""
        return self._exchange(self._prepared("GET", path, None, {}), bytes)

    def _exchange(self, prepared: urllib.request.Request, read: Callable[[bytes], _Answer]) -> _Answer:
        until, pause = time.monotonic() + self._patience_s, _FIRST_PAUSE_S
        while True:
            try:
                with self._open(prepared, timeout=_TIMEOUT_S) as reply:
                    return read(reply.read())
            except urllib.error.HTTPError as error:
                refusal = _refusal(error, self.server)
            except (OSError, http.client.HTTPException, ValueError, TypeError) as error:
                reason = getattr(error, "reason", error)
                refusal = UnreachableServerError(
                    f"server must answer, got {reason} from {self.server}. Start it with cerebro serve, or check the "
                    "address"
                )
            if (refusal.status and refusal.status not in _AGAIN) or time.monotonic() + pause > until:
                raise refusal
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE_S)

    def lines(self, path: str, last_event: int) -> Iterator[str]:
        """Yield the lines of a stream of events until the connection ends.

        Raises
        ------
        ServerError
            As :meth:`request`.
        """
        headers = {"Accept": "text/event-stream", "Last-Event-ID": str(last_event)}
        prepared = self._prepared("GET", path, None, headers)
        try:
            with self._open(prepared, timeout=_SILENCE_S) as reply:
                for line in reply:
                    yield line.decode().rstrip("\n")
        except urllib.error.HTTPError as error:
            raise _refusal(error, self.server) from error
        except (OSError, http.client.HTTPException) as error:
            raise UnreachableServerError(f"server must answer, got {error} from {self.server}.") from error

    def _prepared(
        self, method: str, path: str, data: bytes | None, headers: Mapping[str, str]
    ) -> urllib.request.Request:
        sent = {"Accept": "application/json", "Content-Type": "application/json", **headers}
        if self._token:
            sent["Authorization"] = f"Bearer {self._token}"
        return urllib.request.Request(  # noqa: S310 - checked above
            f"{self.server}/api/v1/{path}", data=data, headers=sent, method=method
        )


def _refusal(error: urllib.error.HTTPError, server: str) -> ServerError:
    try:
        document = json.loads(error.read())["error"]
        message, code = str(document["message"]), str(document["code"])
    except (OSError, http.client.HTTPException, ValueError, KeyError, TypeError):
        message, code = f"server must answer as cerebro serve does, got status {error.code} from {server}.", ""
    if error.code == 401:
        message += " Programs on another machine need CEREBRO_TOKEN, the content of ~/.config/cerebro/token there."
    return ServerError(message, error.code, code)
