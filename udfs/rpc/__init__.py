"""Typed calls between long-lived processes of one run: signed with its secret, bounded in size, without a pickle."""

from udfs.rpc._address import address_towards
from udfs.rpc._caller import Caller
from udfs.rpc._endpoint import Endpoint
from udfs.rpc._errors import CallError, RefusedError
from udfs.rpc._limits import Limits
from udfs.rpc._protocol import Request, WireProtocol
from udfs.rpc._seal import Seal

__all__ = [
    "CallError",
    "Caller",
    "Endpoint",
    "Limits",
    "RefusedError",
    "Request",
    "Seal",
    "WireProtocol",
    "address_towards",
]
