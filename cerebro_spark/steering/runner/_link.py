"""Requests of a runner to the REST API of its server."""

from __future__ import annotations

import http.client
import json
from typing import TYPE_CHECKING, Any
from urllib.error import HTTPError
from urllib.parse import urlsplit, urlunsplit
from urllib.request import HTTPRedirectHandler, ProxyHandler, Request, build_opener

from optimizer.errors import CerebroError, InvalidArgumentError
from udfs.access_tokens import LOOPBACK_HOSTS, program_token

if TYPE_CHECKING:
    from urllib.request import OpenerDirector

__all__ = ["LinkDownError", "LinkRefusedError", "ServerLink"]

_TIMEOUT_S = 10.0
_LARGEST_REPLY = 16 * 1024 * 1024
# The server is busy, starts or stops; a proxy before it answers in its place.
_TRY_AGAIN = frozenset({408, 425, 429, *range(500, 600)})
_SHOWN = 500


class LinkDownError(CerebroError, RuntimeError):
    """The server does not answer, or answers that it cannot right now; a later request may succeed."""


class LinkRefusedError(CerebroError, RuntimeError):
    """The server refuses a request; the message has its reason.

    Attributes
    ----------
    status : int
        HTTP status of the reply.
    """

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


class _NoRedirects(HTTPRedirectHandler):
    """Refuses redirects, which would take the token to another host."""

    def redirect_request(self, *_: object) -> None:
        """Return no request."""


class ServerLink:
    """Address of a server, and the token that programs send to it.

    Parameters
    ----------
    server : str
        Address, such as ``"http://127.0.0.1:8765"``; it may have a path.
    token : str, optional
        Token of the runner. By default :func:`udfs.access_tokens.program_token`.

    Raises
    ------
    InvalidArgumentError
        ``server`` is no address.

    Examples
    --------
    >>> ServerLink("http://127.0.0.1:8765/", token="secret").server
    'http://127.0.0.1:8765'
    >>> ServerLink("127.0.0.1:8765")
    Traceback (most recent call last):
    optimizer.errors.InvalidArgumentError: server must be an address such as 'http://127.0.0.1:8765', got \
'127.0.0.1:8765'. `cerebro serve` prints it
    """

    def __init__(self, server: str, *, token: str | None = None) -> None:
        parts = urlsplit(server if isinstance(server, str) else "")
        if parts.scheme not in {"http", "https"} or not parts.hostname or "@" in parts.netloc:
            raise InvalidArgumentError(
                f"server must be an address such as 'http://127.0.0.1:8765', got {server!r}. `cerebro serve` prints it"
            )
        # The query of the printed address has a token that signs a browser in, once.
        self.server = urlunsplit((parts.scheme, parts.netloc, parts.path.rstrip("/"), "", ""))
        self._token = program_token(self.server) if token is None else token
        # The proxies of the environment are for other machines.
        proxies = [ProxyHandler({})] if parts.hostname in LOOPBACK_HOSTS else []
        self._opener: OpenerDirector = build_opener(_NoRedirects, *proxies)

    def call(self, method: str, path: str, body: Any = None, *, timeout_s: float = _TIMEOUT_S) -> dict[str, Any]:
        """Send a request, and return the JSON object of the reply.

        Parameters
        ----------
        method : str
            ``"GET"``, ``"POST"`` or ``"PUT"``.
        path : str
            Path below ``/api/v1``.
        body : object, optional
            Plain data. By default the request has no body.
        timeout_s : float
            Seconds that the server may be silent. Default 10.

        Returns
        -------
        dict
            Reply.

        Raises
        ------
        LinkDownError
            There was no reply, or one that asks to try again; the server may have carried out the request.
        LinkRefusedError
            The server refused the request.
        """
        headers = {"Accept": "application/json", "Content-Type": "application/json"}
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        data = None if body is None else json.dumps(body, allow_nan=False).encode()
        request = Request(f"{self.server}/api/v1{path}", data, headers, method=method)  # noqa: S310 - http or https
        try:
            with self._opener.open(request, timeout=timeout_s) as reply:
                content = reply.read(_LARGEST_REPLY)
        except HTTPError as error:
            message = f"{self.server} replied {error.code} to {method} {path}: {_reason(error)}"
            if error.code in _TRY_AGAIN:
                raise LinkDownError(message) from error
            raise LinkRefusedError(message, error.code) from error
        except (OSError, http.client.HTTPException) as error:
            reason = getattr(error, "reason", None) or error
            raise LinkDownError(f"{self.server} does not answer: {reason}") from error
        try:
            document = json.loads(content)
        except ValueError as error:
            raise LinkDownError(f"{self.server} did not reply with JSON to {method} {path}") from error
        if not isinstance(document, dict):
            raise LinkDownError(f"{self.server} did not reply with a JSON object to {method} {path}")
        return document


def _reason(error: HTTPError) -> str:
    """Return the message of an error's body, or the phrase of its status."""
    try:
        return str(json.loads(error.read(_LARGEST_REPLY))["error"]["message"])[:_SHOWN]
    except (OSError, http.client.HTTPException, ValueError, LookupError, TypeError):
        return str(error.reason)
