"""The side that is called."""

from __future__ import annotations

import logging
import socket
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Self

from udfs.rpc._address import interface_of, is_every_interface, location_of
from udfs.rpc._channel import Kind, prove_to_caller, refuse
from udfs.rpc._connections import Connection, Connections
from udfs.rpc._encryption import context_of_endpoint
from udfs.rpc._errors import RefusedError
from udfs.rpc._held import Held
from udfs.rpc._limits import Limits
from udfs.rpc._socket import deadline

if TYPE_CHECKING:
    from collections.abc import Callable

    from udfs.rpc._channel import Channel
    from udfs.rpc._credentials import Credentials
    from udfs.rpc._protocol import Request, WireProtocol

__all__ = ["Endpoint"]

_LOG = logging.getLogger(__name__)

_BACKLOG = 512

# Between two looks at whether the endpoint is closed, where the system does not wake whoever waits for connections.
_LOOK_S = 1.0

# Seconds for requests at work when the endpoint closes.
_CLOSE_S = 5.0

_LONGEST_REASON = 4_000

# Refusals are logged that often: a flood of them is to fill neither a disk nor a reader's time.
_LOG_S = 1.0


class Endpoint:
    """Answers the requests of a run's members, and gives out bytes by name, on one interface.

    Whoever connects has to prove first that it knows the secret. Until then it gets a few bytes of memory and
    ``limits.stranger_s`` seconds, and is among the first to be dropped when there are many. After that each of its
    messages is checked by its signature, and its size before there is memory for it.

    Parameters
    ----------
    host : str
        Name or address of the interface to listen on, and of no other; ``0.0.0.0`` is all of them.
    credentials : Credentials
        The run's. With a certificate every connection is encrypted.
    protocol : WireProtocol
    answer : callable, optional
        Takes a request and gives its reply, in any of several threads; it may raise :class:`RefusedError` as well.
        Without it every request is refused.
    held : callable, optional
        Takes a name and gives bytes, or ``None`` where it has none of that name. With their digest (:class:`Held`) they
        are not read for a signature.
    limits : Limits, optional

    Attributes
    ----------
    location : str
        ``tcp://address:port``, for :class:`Caller`: other machines need not know the name.
    refused : int
        Requests, and proofs of strangers, that were refused so far.

    Raises
    ------
    AddressError
        The interface is not of this machine.
    """

    def __init__(
        self,
        host: str,
        credentials: Credentials,
        protocol: WireProtocol,
        answer: Callable[[Request[Any]], Any] | None = None,
        held: Callable[[str], Held | bytes | None] | None = None,
        limits: Limits | None = None,
    ) -> None:
        address = interface_of(host)
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        self._listener = socket.create_server((address, 0), family=family, backlog=_BACKLOG)
        reached = interface_of(socket.gethostname()) if is_every_interface(address) else address
        self.location = location_of(reached, self._listener.getsockname()[1])
        self._secret = credentials.secret
        self._encryption = context_of_endpoint(credentials) if credentials.encrypted else None
        self._protocol = protocol
        self._answer = answer
        self._held = held
        self._limits = limits or Limits()
        self._connections = Connections(self._limits)
        self._closed = threading.Event()
        self._lock = threading.Lock()
        self.refused = 0
        self._logged = (0, -_LOG_S)  # refusals, and when
        self._acceptor = threading.Thread(target=self._accept, name="endpoint", daemon=True)
        self._acceptor.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()

    @property
    def dropped(self) -> int:
        """Connections that were closed for want of room."""
        return self._connections.dropped

    def shutdown(self) -> None:
        """Listen no more, and end all connections; requests at work have five seconds."""
        if self._closed.is_set():
            return
        self._closed.set()
        with suppress(OSError):  # wakes the thread that waits for connections, on Linux
            self._listener.shutdown(socket.SHUT_RDWR)
        self._acceptor.join()
        self._listener.close()
        self._connections.close(deadline(_CLOSE_S))

    def _accept(self) -> None:
        self._listener.settimeout(_LOOK_S)
        while not self._closed.is_set():
            try:
                accepted, address = self._listener.accept()
            except TimeoutError:
                continue
            except OSError:
                # No descriptor is free, or the connection has ended already.
                self._connections.drop_oldest()
                self._closed.wait(0.01)
                continue
            try:
                accepted = self._to_be_encrypted(accepted)
            except OSError:  # it has ended already
                accepted.close()
                continue
            connection = Connection(accepted, f"{address[0]}:{address[1]}")
            self._connections.add(connection)
            connection.thread = threading.Thread(
                target=self._serve, args=(connection,), name="endpoint-connection", daemon=True
            )
            try:
                connection.thread.start()
            except RuntimeError:  # no thread is free
                connection.thread = None
                self._end(connection)
                self._connections.drop_oldest()

    def _to_be_encrypted(self, accepted: socket.socket) -> socket.socket:
        """Let the connection have one socket from the beginning, for other threads may cut it."""
        if self._encryption is None:
            return accepted
        return self._encryption.wrap_socket(accepted, server_side=True, do_handshake_on_connect=False)

    def _serve(self, connection: Connection) -> None:
        try:
            channel = self._prove(connection)
            while channel is not None and not self._closed.is_set():
                kind, length = channel.receive_header(deadline(self._limits.idle_s))
                connection.busy = True
                if not self._reply(channel, connection, kind, length):
                    return
                connection.busy = False
        except RefusedError as error:
            self._refuse(connection, error)
        except OSError:  # it has gone, or was too slow
            return
        finally:
            self._end(connection)

    def _prove(self, connection: Connection) -> Channel | None:
        until = deadline(self._limits.stranger_s)
        connection.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            channel = prove_to_caller(connection.socket, self._secret, until)
        except RefusedError as error:
            self._refuse(connection, error)
            refuse(connection.socket, until)
            return None
        return channel if self._connections.admit(connection) else None

    def _reply(self, channel: Channel, connection: Connection, kind: Kind, length: int) -> bool:
        """Answer one request; gives whether the connection can go on."""
        fits = length <= self._limits.message_bytes
        try:
            if not fits:
                raise RefusedError(f"a message of {length:,} bytes, more than {self._limits.message_bytes:,}")  # noqa: TRY301 - counted below
            content = channel.receive_content(length, deadline(self._limits.request_s))
            answer_kind, answer, digest = self._call(content) if kind is Kind.CALL else self._fetch(content)
        except RefusedError as error:
            self._refuse(connection, error)
            answer_kind, answer, digest = Kind.REFUSED, str(error).encode()[:_LONGEST_REASON], ""
        until = deadline(self._limits.request_s + len(answer) / self._limits.slowest)
        channel.send(answer_kind, answer, until, digest)
        return fits

    def _call(self, content: bytes) -> tuple[Kind, bytes, str]:
        if self._answer is None:
            raise RefusedError("a call, which nobody answers here")
        request = self._protocol.decode_request(content)
        try:
            reply = self._protocol.encode(self._answer(request))
        except RefusedError:
            raise
        except Exception as error:  # noqa: BLE001 - the caller hears of it
            _LOG.exception("a call failed")
            return _failed(f"{type(error).__name__}: {error}")
        if len(reply) > self._limits.message_bytes:
            return _failed(f"the reply takes {len(reply):,} bytes, more than {self._limits.message_bytes:,}")
        return Kind.DONE, reply, ""

    def _fetch(self, content: bytes) -> tuple[Kind, bytes, str]:
        name = content.decode(errors="replace")
        held = self._held(name) if self._held is not None else None
        if isinstance(held, Held):
            return Kind.HELD, held.content, held.digest
        return _failed(f"nothing is held under {name!r}") if held is None else (Kind.DONE, held, "")

    def _refuse(self, connection: Connection, error: RefusedError) -> None:
        now = time.monotonic()
        with self._lock:
            self.refused += 1
            logged, when = self._logged
            if now - when < _LOG_S:
                return
            self._logged = self.refused, now
            more = self.refused - logged - 1
        _LOG.warning("refused %s from %s%s", error, connection.peer, f", and {more:,} before it" if more else "")

    def _end(self, connection: Connection) -> None:
        self._connections.remove(connection)
        connection.socket.close()


def _failed(reason: str) -> tuple[Kind, bytes, str]:
    return Kind.FAILED, reason.encode()[:_LONGEST_REASON], ""
