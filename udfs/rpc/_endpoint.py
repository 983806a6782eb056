"""Server of calls: authenticates callers and answers their requests."""

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
from udfs.rpc._hosted_content import Held
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

# Seconds between checks for shutdown, on systems where closing the listener does not wake the thread that accepts.
_LOOK_S = 1.0

# Seconds that requests in progress have to finish when the endpoint closes.
_CLOSE_S = 5.0

_LONGEST_REASON = 4_000

# Minimum seconds between logged refusals, so that a flood of refusals does not fill the log.
_LOG_S = 1.0


class Endpoint:
    """Server that answers the requests of the members of a run, and serves stored bytes by name, on one interface.

    A caller first has to prove that it knows the secret. Until then it may use a few bytes of memory and
    ``limits.stranger_s`` seconds, and it is dropped first if there are too many connections. Afterwards the endpoint
    verifies the signature of each message, and its size before it allocates memory.

    Parameters
    ----------
    host : str
        Name or address of the only interface to listen on; ``0.0.0.0`` stands for all interfaces.
    credentials : Credentials
        Credentials of the run. With a certificate, every connection is encrypted.
    answer : callable, optional
        Function that takes a request and returns its reply. It is called from several threads, and may raise
        :class:`RefusedError`. By default every request is refused.
    held : callable, optional
        Function that takes a name and returns the bytes stored under it, or ``None``. If it returns the bytes with
        their digest (:class:`Held`), the digest is signed instead of the bytes.

    Attributes
    ----------
    location : str
        Location for :class:`Caller`, ``tcp://address:port``. It contains an address, so that other machines need not
        resolve the host name.
    refused : int
        Number of refused requests and rejected proofs so far.

    Raises
    ------
    AddressError
        The interface does not belong to this machine.
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
        self._logged = (0, -_LOG_S)  # number of refusals at the last log line, and its time
        self._acceptor = threading.Thread(target=self._accept, name="endpoint", daemon=True)
        self._acceptor.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()

    @property
    def dropped(self) -> int:
        """Number of connections that were closed because a limit was reached."""
        return self._connections.dropped

    def shutdown(self) -> None:
        """Stop listening and close all connections; requests in progress have five seconds to finish."""
        if self._closed.is_set():
            return
        self._closed.set()
        with suppress(OSError):  # wakes the accepting thread on Linux
            self._listener.shutdown(socket.SHUT_RDWR)
        self._acceptor.join()
        self._listener.close()
        self._connections.close(deadline(_CLOSE_S))

    def _accept(self) -> None:
        self._listener.settimeout(_LOOK_S)
        while not self._closed.is_set():
            try:
                self._accept_next()
            except Exception:  # noqa: BLE001 - without this thread no peer could connect any more
                _LOG.exception("a connection could not be accepted")
                self._closed.wait(_LOOK_S)

    def _accept_next(self) -> None:
        try:
            accepted, address = self._listener.accept()
        except TimeoutError:
            return
        except OSError:
            # No file descriptor is free, or the peer disconnected already.
            self._connections.drop_oldest()
            self._closed.wait(0.01)
            return
        try:
            accepted = self._to_be_encrypted(accepted)
        except OSError:  # the peer disconnected already
            accepted.close()
            return
        connection = Connection(accepted, f"{address[0]}:{address[1]}")
        self._connections.add(connection)
        connection.thread = threading.Thread(
            target=self._serve, args=(connection,), name="endpoint-connection", daemon=True
        )
        try:
            connection.thread.start()
        except RuntimeError:  # the system cannot start another thread
            connection.thread = None
            self._end(connection)
            self._connections.drop_oldest()

    def _to_be_encrypted(self, accepted: socket.socket) -> socket.socket:
        """Wrap the socket before it is shared: other threads may shut it down, so it must not be replaced later."""
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
        except OSError:  # the peer disconnected or missed a deadline
            return
        except Exception:  # noqa: BLE001 - the caller sees a closed connection
            _LOG.exception("a connection failed")
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
        """Answer one request; return whether the connection stays usable."""
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
            raise RefusedError("a call, which this endpoint does not answer")
        try:
            request = self._protocol.decode_request(content)
            reply = self._protocol.encode(self._answer(request))
        except RefusedError:
            raise
        except Exception as error:  # noqa: BLE001 - reported to the caller
            _LOG.exception("a call failed")
            return _failed(f"{type(error).__name__}: {error}")
        if len(reply) > self._limits.message_bytes:
            return _failed(f"the reply takes {len(reply):,} bytes, more than {self._limits.message_bytes:,}")
        return Kind.DONE, reply, ""

    def _fetch(self, content: bytes) -> tuple[Kind, bytes, str]:
        name = content.decode(errors="replace")
        stored = self._held(name) if self._held is not None else None
        if isinstance(stored, Held):
            return Kind.HELD, stored.content, stored.digest
        return _failed(f"nothing is held under {name!r}") if stored is None else (Kind.DONE, stored, "")

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
