"""Client of an endpoint."""

from __future__ import annotations

import socket
import threading
import time
from typing import TYPE_CHECKING, TypeVar

from udfs.rpc._address import host_and_port
from udfs.rpc._channel import Kind, prove_to_endpoint
from udfs.rpc._encryption import context_of_caller
from udfs.rpc._errors import CallError, RefusedError
from udfs.rpc._hosted_content import Held, digest_of
from udfs.rpc._limits import Limits
from udfs.rpc._socket import deadline

if TYPE_CHECKING:
    from collections.abc import Callable

    from udfs.rpc._channel import Channel
    from udfs.rpc._credentials import Credentials
    from udfs.rpc._protocol import Request, WireProtocol

__all__ = ["Caller"]

ReplyT = TypeVar("ReplyT")

# Initial and maximum backoff in seconds between attempts to connect to an endpoint that dropped the connection.
_PAUSE_S, _LONGEST_PAUSE_S = 0.02, 0.5

# Fraction of the endpoint's idle timeout for which the caller reuses an idle connection.
_REUSE = 1 / 6


class Caller:
    """Client of one endpoint, with a pool of connections: one per thread that calls at the same time.

    Parameters
    ----------
    credentials : Credentials
        Credentials of the run. If they have a certificate, the endpoint must present it; otherwise the endpoint must
        not encrypt.
    """

    def __init__(
        self, location: str, credentials: Credentials, protocol: WireProtocol, limits: Limits | None = None
    ) -> None:
        self._location = location
        self._secret = credentials.secret
        self._encryption = context_of_caller(credentials) if credentials.encrypted else None
        self._protocol = protocol
        self._limits = limits or Limits()
        self._idle: list[tuple[float, Channel]] = []  # (idle since, channel), last used at the end
        self._busy: set[Channel] = set()
        self._closed = False
        self._lock = threading.Lock()

    def close(self) -> None:
        """Close all connections; calls in progress fail."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
            busy = list(self._busy)
        for _, channel in idle:
            channel.close()
        for channel in busy:
            channel.cut()

    def call(self, request: Request[ReplyT], *, timeout_s: float) -> ReplyT:
        """Send a request and wait for the reply.

        Raises
        ------
        CallError
            The endpoint cannot be reached, does not reply in time, or raised an error; or the request is too large.
        RefusedError
            The endpoint refused the request; the reply is not signed with the secret or does not conform to the
            protocol; or only one of the two sides encrypts.
        udfs.packing.StateError
            A field of the request cannot be serialized.
        """
        name, limit = type(request).__name__, self._limits.message_bytes
        content = self._protocol.encode(request)
        if len(content) > limit:
            raise CallError(f"{name} takes {len(content):,} bytes, and a message may take {limit:,}")
        try:
            kind, answer, _ = self._ask(Kind.CALL, content, limit, deadline(timeout_s))
        except RefusedError as error:
            raise RefusedError(f"{self._location} refused {name}: {error}") from error
        except OSError as error:
            raise CallError(f"{self._location} did not answer {name}: {error}") from error
        if kind is Kind.FAILED:
            raise CallError(f"{self._location} did not answer {name}: {answer.decode(errors='replace')}")
        return self._protocol.decode_reply(request, answer)

    def fetch(self, name: str, *, timeout_s: float) -> bytes:
        """Fetch the bytes that the endpoint stores under a name.

        Raises
        ------
        CallError, RefusedError
            See :meth:`call`; also if the endpoint stores no content under the name.
        """
        content, _ = self._fetched(name, timeout_s)
        return content

    def fetch_held(self, name: str, *, timeout_s: float, allocate: Callable[[int], memoryview] | None = None) -> Held:
        """Fetch bytes together with the digest of the bytes received; see :meth:`fetch`.

        ``allocate`` returns writable memory for a number of bytes, such as pages of a file; by default they are
        ``bytes``.
        """
        content, digest = self._fetched(name, timeout_s, allocate)
        return Held(content, digest or digest_of(content))

    def _fetched(
        self, name: str, timeout_s: float, allocate: Callable[[int], memoryview] | None = None
    ) -> tuple[bytes, str]:
        try:
            kind, answer, digest = self._ask(Kind.FETCH, name.encode(), None, deadline(timeout_s), allocate)
        except RefusedError as error:
            raise RefusedError(f"{self._location} refused to give {name!r}: {error}") from error
        except OSError as error:
            raise CallError(f"{self._location} did not give {name!r}: {error}") from error
        if kind is Kind.FAILED:
            raise CallError(f"{self._location} did not give {name!r}: {answer.decode(errors='replace')}")
        return answer, digest

    def _ask(
        self,
        kind: Kind,
        content: bytes,
        limit: int | None,
        until: float,
        allocate: Callable[[int], memoryview] | None = None,
    ) -> tuple[Kind, bytes, str]:
        channel = self._take(until)
        try:
            channel.send(kind, content, until)
            answer_kind, length = channel.receive_header(until)
            if limit is not None and length > limit:
                raise RefusedError(f"an answer of {length:,} bytes, more than {limit:,}")  # noqa: TRY301 - closes as well
            if answer_kind is Kind.HELD:
                answer, digest = channel.receive_held(length, until, allocate)
            else:
                answer, digest = channel.receive_content(length, until), ""
        except BaseException:
            # A late answer on this connection would be mistaken for the answer to the next request.
            self._discard(channel)
            raise
        self._put_back(channel)
        if answer_kind is Kind.REFUSED:
            raise RefusedError(answer.decode(errors="replace"))
        return answer_kind, answer, digest

    def _take(self, until: float) -> Channel:
        with self._lock:
            if self._closed:
                raise ConnectionAbortedError("the caller was closed")
            oldest = time.monotonic() - self._limits.idle_s * _REUSE
            fresh = [each for each in self._idle if each[0] > oldest]
            stale = [channel for since, channel in self._idle if since <= oldest]
            channel = fresh.pop()[1] if fresh else None
            self._idle = fresh
            if channel is not None:
                self._busy.add(channel)
        for each in stale:
            each.close()
        return channel or self._connect(until)

    def _connect(self, until: float) -> Channel:
        pause = _PAUSE_S
        while True:
            try:
                return self._try_to_connect(until)
            except (ConnectionResetError, BrokenPipeError):
                # The endpoint dropped this unauthenticated connection to make room. No request was sent: retry.
                if time.monotonic() + pause >= until:
                    raise
                time.sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE_S)

    def _try_to_connect(self, until: float) -> Channel:
        remaining = until - time.monotonic()
        if remaining <= 0:
            raise TimeoutError("timed out")
        connection = socket.create_connection(host_and_port(self._location), timeout=remaining)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        channel = prove_to_endpoint(connection, self._secret, until, self._encryption)
        with self._lock:
            self._busy.add(channel)
            closed = self._closed
        if closed:
            self._discard(channel)
            raise ConnectionAbortedError("the caller was closed")
        return channel

    def _put_back(self, channel: Channel) -> None:
        with self._lock:
            self._busy.discard(channel)
            if not self._closed:
                self._idle.append((time.monotonic(), channel))
                return
        channel.close()

    def _discard(self, channel: Channel) -> None:
        with self._lock:
            self._busy.discard(channel)
        channel.close()
