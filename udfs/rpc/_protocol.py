"""Wire protocols: the accepted requests, the types of their replies, and the validation of received messages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generic, TypeVar, get_args, get_origin

import numpy as np

from optimizer.errors import nearest
from udfs.packing import StateError, pack, unpack
from udfs.rpc._errors import RefusedError
from udfs.rpc._types import decode, encode

__all__ = ["Request", "WireProtocol"]

ReplyT = TypeVar("ReplyT", covariant=True)  # noqa: PLC0105 - the plain name reads better


class Request(Generic[ReplyT]):
    """Base class of the requests of a protocol. A request is a frozen dataclass; the type parameter is its reply.

    Examples
    --------
    >>> @dataclass(frozen=True)
    ... class Size:
    ...     rows: int
    >>> @dataclass(frozen=True)
    ... class Count(Request[Size]):
    ...     table: str
    >>> Count("people")
    Count(table='people')
    """

    __slots__ = ()


@dataclass(frozen=True)
class WireProtocol:
    """Messages that two sides of the same version exchange.

    A message is encoded as the name and version of the protocol, the name of its type, and its fields. A received
    message is validated against the type hints: unknown fields, missing fields and fields of another type are refused.

    Examples
    --------
    >>> @dataclass(frozen=True)
    ... class Size:
    ...     rows: int
    >>> @dataclass(frozen=True)
    ... class Count(Request[Size]):
    ...     table: str
    >>> protocol = WireProtocol("tables", 1, (Count,))
    >>> protocol.decode_request(protocol.encode(Count("people")))
    Count(table='people')
    >>> protocol.decode_reply(Count("people"), protocol.encode(Size(3)))
    Size(rows=3)
    """

    name: str
    # Version of the messages. Increase it with every change of a message, so that the other side refuses an unknown
    # version instead of misinterpreting it.
    version: int
    requests: tuple[type[Request[Any]], ...]  # dataclasses derived from Request

    def encode(self, message: Any) -> bytes:
        """Encode a request or reply as bytes.

        Raises
        ------
        udfs.packing.StateError
            A field cannot be serialized.
        """
        return pack({"protocol": self.name, "version": self.version, "message": encode(message)}, _as_array)

    def decode_request(self, payload: bytes) -> Request[Any]:
        """Decode a request.

        Raises
        ------
        RefusedError
            The message is malformed, belongs to another protocol or version, or is an unknown request; or its fields
            are missing, unknown or of another type.
        """
        message = self._message(payload)
        known = {request.__name__: request for request in self.requests}
        if message["type"] not in known:
            raise RefusedError(
                f"a request {message['type']!r}, which {self.name} does not have{nearest(message['type'], known)}"
            )
        request: Request[Any] = decode(known[message["type"]], message)
        return request

    def decode_reply(self, request: Request[ReplyT], payload: bytes) -> ReplyT:
        """Decode the reply to a request.

        Raises
        ------
        RefusedError
            See :meth:`decode_request`.
        """
        reply: ReplyT = decode(_reply_type(type(request)), self._message(payload))
        return reply

    def _message(self, payload: bytes) -> dict[str, Any]:
        try:
            envelope = unpack(payload, _as_tensor)
        except (StateError, KeyError, TypeError) as error:
            raise RefusedError(f"a malformed message of {len(payload)} bytes") from error
        if not isinstance(envelope, dict) or envelope.keys() != {"protocol", "version", "message"}:
            raise RefusedError(f"a malformed message of {len(payload)} bytes")
        if (envelope["protocol"], envelope["version"]) != (self.name, self.version):
            raise RefusedError(
                f"a message of protocol {envelope['protocol']!r}, version {envelope['version']!r}, and this side "
                f"speaks {self.name!r}, version {self.version}: install one version of cerebro-spark on the driver and "
                "all workers"
            )
        message = envelope["message"]
        if (
            not isinstance(message, dict)
            or message.keys() != {"type", "fields"}
            or not isinstance(message["type"], str)
        ):
            raise RefusedError(f"a malformed message of {len(payload)} bytes")
        return dict(message)


def _reply_type(request: type[Request[Any]]) -> Any:
    """Return the type parameter of ``Request``, which is the type of the reply."""
    for base in getattr(request, "__orig_bases__", ()):
        if get_origin(base) is Request:
            return get_args(base)[0]
    raise TypeError(f"{request.__name__} does not say its reply: derive it from Request[...]")


def _as_array(value: Any) -> tuple[Any, str] | None:
    return (value, "numpy") if isinstance(value, np.ndarray) else None


def _as_tensor(array: Any, _kind: str) -> Any:
    return array
