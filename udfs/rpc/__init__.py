"""Typed remote calls between the processes of a run: signed, optionally encrypted, of bounded size, without pickle."""

from udfs.rpc._address import address_towards
from udfs.rpc._caller import Caller
from udfs.rpc._credentials import Credentials, new_credentials
from udfs.rpc._endpoint import Endpoint
from udfs.rpc._errors import AddressError, CallError, RefusedError
from udfs.rpc._hosted_content import Held, digest_of
from udfs.rpc._limits import Limits
from udfs.rpc._protocol import Request, WireProtocol
from udfs.rpc._seal import Seal

__all__ = [
    "AddressError",
    "CallError",
    "Caller",
    "Credentials",
    "Endpoint",
    "Held",
    "Limits",
    "RefusedError",
    "Request",
    "Seal",
    "WireProtocol",
    "address_towards",
    "digest_of",
    "new_credentials",
]
