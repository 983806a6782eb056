"""The side that is called."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyarrow import flight

from udfs.rpc._errors import RefusedError
from udfs.rpc._seal import Seal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from udfs.rpc._protocol import Request, WireProtocol

__all__ = ["ACTION", "Endpoint"]

_LOG = logging.getLogger(__name__)

ACTION = "call"

# Bytes of one record batch: gRPC copies message by message.
_CHUNK = 8 << 20

_SCHEMA = pa.schema([pa.field("bytes", pa.large_binary())])


class Endpoint(flight.FlightServerBase):  # type: ignore[misc]
    """Answers signed requests, and gives out bytes by name, on one interface.

    Parameters
    ----------
    host : str
        Name or address of the interface to listen on.
    secret : bytes
        The run's, at least 16 random bytes.
    protocol : WireProtocol
    answer : callable, optional
        Takes a request and gives its reply, in any of several threads; it may raise :class:`RefusedError` as well.
        Without it every request is refused.
    held : callable, optional
        Takes a name and gives bytes, or ``None`` where it has none of that name.
    """

    def __init__(
        self,
        host: str,
        secret: bytes,
        protocol: WireProtocol,
        answer: Callable[[Request[Any]], Any] | None = None,
        held: Callable[[str], bytes | None] | None = None,
    ) -> None:
        super().__init__(f"grpc+tcp://{host}:0")
        self.location = f"grpc+tcp://{host}:{self.port}"
        self._protocol = protocol
        self._seal = Seal(secret)
        self._answer = answer
        self._held = held
        self._lock = threading.Lock()
        self.refused = 0
        """Requests that were refused so far."""

    def do_action(self, context: Any, action: Any) -> Iterator[bytes]:
        """Answer a request; of Flight."""
        sealed = action.body.to_pybytes()
        try:
            if action.type != ACTION or self._answer is None:
                raise RefusedError(f"an action {action.type!r}, which nobody offers")  # noqa: TRY301 - counted below
            request = self._protocol.decode_request(self._seal.open("call", sealed))
            reply = self._protocol.encode(self._answer(request))
        except RefusedError as error:
            raise self._refusal(context, error) from error
        except Exception:
            _LOG.exception("a call failed")
            raise
        yield self._seal.close_answer(sealed, reply)

    def do_get(self, context: Any, ticket: Any) -> Any:
        """Give out bytes; of Flight."""
        try:
            name = self._seal.open("fetch", ticket.ticket).decode(errors="replace")
        except RefusedError as error:
            raise self._refusal(context, error) from error
        content = self._held(name) if self._held is not None else None
        if content is None:
            raise flight.FlightServerError(f"nothing is held under {name!r}")
        return flight.GeneratorStream(_SCHEMA, _chunks(content))

    def list_actions(self, context: Any) -> list[Any]:  # noqa: ARG002 - of Flight
        """Tell a stranger nothing."""
        return []

    def _refusal(self, context: Any, error: RefusedError) -> Exception:
        with self._lock:
            self.refused += 1
        _LOG.warning("refused %s from %s", error, context.peer())
        refusal: Exception = flight.FlightUnauthenticatedError(str(error))
        return refusal


def _chunks(content: bytes) -> Iterator[pa.RecordBatch]:
    for start in range(0, len(content), _CHUNK):
        part = pa.py_buffer(content)[start : start + _CHUNK]
        offsets = pa.py_buffer(np.array([0, len(part)], np.int64))
        yield pa.RecordBatch.from_arrays(
            [pa.Array.from_buffers(pa.large_binary(), 1, [None, offsets, part])], schema=_SCHEMA
        )
