"""The side that calls."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import pyarrow as pa
from pyarrow import flight

from udfs.rpc._endpoint import ACTION
from udfs.rpc._errors import CallError, RefusedError
from udfs.rpc._seal import Seal

if TYPE_CHECKING:
    from udfs.rpc._protocol import Request, WireProtocol

__all__ = ["Caller"]

ReplyT = TypeVar("ReplyT")


class Caller:
    """A connection to one endpoint. Any number of threads may call at the same time.

    Parameters
    ----------
    location : str
        ``grpc+tcp://host:port``.
    secret : bytes
        The run's, at least 16 random bytes.
    protocol : WireProtocol
    """

    def __init__(self, location: str, secret: bytes, protocol: WireProtocol) -> None:
        self._location = location
        self._protocol = protocol
        self._seal = Seal(secret)
        self._client = flight.FlightClient(location)

    def close(self) -> None:
        """Close the connection."""
        self._client.close()

    def call(self, request: Request[ReplyT], *, timeout_s: float) -> ReplyT:
        """Send a request and wait for the reply.

        Parameters
        ----------
        request : Request
        timeout_s : float
            Seconds.

        Raises
        ------
        CallError
            The endpoint cannot be reached, takes longer, or raised.
        RefusedError
            It refused the request, or the reply is not signed with the secret, or not of the protocol.
        udfs.packing.StateError
            A field of the request holds what is not data.
        """
        name = type(request).__name__
        sealed = self._seal.close("call", self._protocol.encode(request))
        options = flight.FlightCallOptions(timeout=timeout_s)
        try:
            results = self._client.do_action(flight.Action(ACTION, sealed), options)
            answer = b"".join(result.body.to_pybytes() for result in results)
        except (flight.FlightUnauthenticatedError, flight.FlightUnauthorizedError) as error:
            raise RefusedError(f"{self._location} refused {name}: {_reason(error)}") from error
        except (pa.ArrowException, OSError) as error:
            raise CallError(f"{self._location} did not answer {name}: {_reason(error)}") from error
        return self._protocol.decode_reply(request, self._seal.open_answer(sealed, answer))

    def fetch(self, name: str, *, timeout_s: float) -> bytes:
        """Get the bytes that the endpoint holds under a name.

        Parameters
        ----------
        name : str
        timeout_s : float
            Seconds.

        Raises
        ------
        CallError, RefusedError
            As for :meth:`call`; also where it holds nothing under the name.
        """
        ticket = flight.Ticket(self._seal.close("fetch", name.encode()))
        try:
            reader = self._client.do_get(ticket, flight.FlightCallOptions(timeout=timeout_s))
            return b"".join(chunk.data.column(0)[0].as_buffer() for chunk in reader)
        except (flight.FlightUnauthenticatedError, flight.FlightUnauthorizedError) as error:
            raise RefusedError(f"{self._location} refused to give {name!r}: {_reason(error)}") from error
        except (pa.ArrowException, OSError) as error:
            raise CallError(f"{self._location} did not give {name!r}: {_reason(error)}") from error


def _reason(error: Exception) -> str:
    return str(error).partition(". gRPC client debug context")[0].partition(". Detail:")[0]
