"""Calls between a run's driver and its workers: sealed with the run's secret, over Arrow Flight, without a pickle."""

from __future__ import annotations

import hmac
import logging
import secrets
import socket
import struct
import threading
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyarrow import flight

from optimizer.errors import CerebroError
from udfs.packing import StateError, pack, unpack

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

__all__ = ["CallError", "Caller", "Endpoint", "RefusedError", "Seal", "address_towards"]

_LOG = logging.getLogger(__name__)

_ACTION = "call"
_MAC = 32
_HEADER = struct.Struct("<16sQ")

# Of a state on its way: gRPC copies message by message.
_CHUNK = 8 << 20

_SCHEMA = pa.schema([pa.field("bytes", pa.large_binary())])


class CallError(CerebroError, ConnectionError):
    """The other side could not be reached, or gave up the call."""


class RefusedError(CerebroError, PermissionError):
    """A call that does not carry the run's secret, is a replay, or is malformed; or an answer of that kind."""


class Seal:
    """Signs and checks what travels in one run.

    Each caller numbers its calls, and nobody takes a number of the same caller twice: a message that was overheard is
    of no use. What travels is signed, not encrypted: the network has to be as trusted as for Spark's own shuffles.

    Parameters
    ----------
    secret : bytes
        Of the run.

    Examples
    --------
    >>> one, other = Seal(b"the run's secret"), Seal(b"the run's secret")
    >>> other.open("hello", one.close("hello", b"here"))
    b'here'
    """

    def __init__(self, secret: bytes) -> None:
        self._secret = secret
        self._caller = secrets.token_bytes(16)
        self._number = 0
        self._highest: dict[bytes, int] = {}
        self._lock = threading.Lock()

    def close(self, purpose: str, payload: bytes) -> bytes:
        """Seal a message.

        Parameters
        ----------
        purpose : str
            What it is for; it is signed and does not travel.
        payload : bytes
        """
        with self._lock:
            self._number += 1
            header = _HEADER.pack(self._caller, self._number)
        return self._sign(purpose, header, payload) + header + payload

    def open(self, purpose: str, sealed: bytes) -> bytes:
        """Check a message and take it out.

        Raises
        ------
        RefusedError
            Too short, not signed with the secret for this purpose, or seen before.
        """
        if len(sealed) < _MAC + _HEADER.size:
            raise RefusedError(f"a malformed message of {len(sealed)} bytes")
        mac, header = sealed[:_MAC], sealed[_MAC : _MAC + _HEADER.size]
        payload = sealed[_MAC + _HEADER.size :]
        if not hmac.compare_digest(mac, self._sign(purpose, header, payload)):
            raise RefusedError("a message that is not signed with this run's secret")
        caller, number = _HEADER.unpack(header)
        with self._lock:
            if number <= self._highest.get(caller, 0):
                raise RefusedError("a message that was sent before")
            self._highest[caller] = number
        return payload

    def _sign(self, purpose: str, header: bytes, payload: bytes) -> bytes:
        return hmac.digest(self._secret, purpose.encode() + b"|" + header + payload, "sha256")


class Caller:
    """Calls one endpoint, from one thread at a time.

    Parameters
    ----------
    location : str
        ``grpc+tcp://host:port``.
    secret : bytes
    """

    def __init__(self, location: str, secret: bytes) -> None:
        self._location = location
        self._seal = Seal(secret)
        self._client = flight.FlightClient(location)

    def close(self) -> None:
        """Leave the connection."""
        self._client.close()

    def call(self, method: str, message: Mapping[str, Any], *, timeout_s: float) -> dict[str, Any]:
        """Send a message and wait for the answer.

        Parameters
        ----------
        method : str
        message : mapping
            Plain data and arrays.
        timeout_s : float

        Raises
        ------
        CallError
            The endpoint cannot be reached, or takes longer.
        RefusedError
            It refused, or what answered does not know the secret.
        """
        sealed = self._seal.close("call", pack({"method": method, "message": dict(message)}, _as_array))
        try:
            found = self._client.do_action(flight.Action(_ACTION, sealed), flight.FlightCallOptions(timeout=timeout_s))
            answer = b"".join(result.body.to_pybytes() for result in found)
        except (flight.FlightUnauthenticatedError, flight.FlightUnauthorizedError) as error:
            raise RefusedError(f"{self._location} refused {method!r}: {_said(error)}") from error
        except (pa.ArrowException, OSError) as error:
            raise CallError(f"{self._location} did not answer {method!r}: {_said(error)}") from error
        return unpack(self._seal.open(f"answer|{sealed[:_MAC].hex()}", answer), _as_tensor)

    def fetch(self, name: str, *, timeout_s: float) -> bytes:
        """Get bytes that the endpoint holds under a name.

        Raises
        ------
        CallError, RefusedError
            As for :meth:`call`; also where it does not hold them.
        """
        ticket = flight.Ticket(self._seal.close("fetch", name.encode()))
        try:
            reader = self._client.do_get(ticket, flight.FlightCallOptions(timeout=timeout_s))
            return b"".join(chunk.data.column(0)[0].as_buffer() for chunk in reader)
        except (flight.FlightUnauthenticatedError, flight.FlightUnauthorizedError) as error:
            raise RefusedError(f"{self._location} refused to give {name!r}: {_said(error)}") from error
        except (pa.ArrowException, OSError) as error:
            raise CallError(f"{self._location} did not give {name!r}: {_said(error)}") from error


class Endpoint(flight.FlightServerBase):  # type: ignore[misc]
    """Answers sealed calls, and gives out bytes by name, on one interface.

    Parameters
    ----------
    host : str
        Name or address of the interface to listen on.
    secret : bytes
    answer : callable, optional
        Takes a method and a message, and gives the answer, in any of several threads; nothing is answered without it.
    held : callable, optional
        Takes a name and gives bytes, or ``None`` where it has none of that name.
    """

    def __init__(
        self,
        host: str,
        secret: bytes,
        answer: Callable[[str, dict[str, Any]], Mapping[str, Any]] | None = None,
        held: Callable[[str], bytes | None] | None = None,
    ) -> None:
        super().__init__(f"grpc+tcp://{host}:0")
        self.location = f"grpc+tcp://{host}:{self.port}"
        self._seal = Seal(secret)
        self._answer = answer
        self._held = held
        self.refused = 0
        """Calls that were turned away so far."""

    def do_action(self, context: Any, action: Any) -> Iterator[bytes]:
        """Answer a call; of Flight."""
        sealed = action.body.to_pybytes()
        try:
            if action.type != _ACTION or self._answer is None:
                raise RefusedError(f"an action {action.type!r}, which nobody offers")  # noqa: TRY301 - logged below
            method, message = self._opened(sealed)
        except RefusedError as error:
            raise self._turned_away(context, error) from error
        try:
            found = pack(self._answer(method, message), _as_array)
        except Exception:
            _LOG.exception("a call of %r failed", method)
            raise
        yield self._seal.close(f"answer|{sealed[:_MAC].hex()}", found)

    def do_get(self, context: Any, ticket: Any) -> Any:
        """Give out bytes; of Flight."""
        try:
            name = self._seal.open("fetch", ticket.ticket).decode(errors="replace")
        except RefusedError as error:
            raise self._turned_away(context, error) from error
        found = self._held(name) if self._held is not None else None
        if found is None:
            raise flight.FlightServerError(f"nothing is held under {name!r}")
        return flight.GeneratorStream(_SCHEMA, _chunks(found))

    def list_actions(self, context: Any) -> list[Any]:  # noqa: ARG002 - of Flight
        """Nothing that a stranger should know."""
        return []

    def _opened(self, sealed: bytes) -> tuple[str, dict[str, Any]]:
        payload = self._seal.open("call", sealed)
        try:
            found = unpack(payload, _as_tensor)
            method, message = str(found["method"]), dict(found["message"])
        except (StateError, KeyError, TypeError) as error:
            raise RefusedError(f"a malformed message of {len(sealed)} bytes") from error
        return method, message

    def _turned_away(self, context: Any, error: RefusedError) -> Exception:
        self.refused += 1
        _LOG.warning("refused %s from %s", error, context.peer())
        refusal: Exception = flight.FlightUnauthenticatedError(str(error))
        return refusal


def address_towards(location: str) -> str:
    """The address of this machine on the interface that leads to a location.

    Examples
    --------
    >>> address_towards("grpc+tcp://127.0.0.1:80")
    '127.0.0.1'
    """
    host, _, port = location.rpartition("://")[2].rpartition(":")
    family, kind, _, _, target = socket.getaddrinfo(host, int(port), type=socket.SOCK_DGRAM)[0]
    with socket.socket(family, kind) as probe:  # of datagrams: nothing is sent to connect
        probe.connect(target)
        return str(probe.getsockname()[0])


def _chunks(found: bytes) -> Iterator[pa.RecordBatch]:
    for start in range(0, len(found), _CHUNK):
        part = pa.py_buffer(found)[start : start + _CHUNK]
        offsets = pa.py_buffer(np.array([0, len(part)], np.int64))
        yield pa.RecordBatch.from_arrays(
            [pa.Array.from_buffers(pa.large_binary(), 1, [None, offsets, part])], schema=_SCHEMA
        )


def _as_array(value: Any) -> tuple[Any, str] | None:
    return (value, "numpy") if isinstance(value, np.ndarray) else None


def _as_tensor(array: Any, _kind: str) -> Any:
    return array


def _said(error: Exception) -> str:
    return str(error).partition(". gRPC client debug context")[0].partition(". Detail:")[0]
