"""Errors of remote calls."""

from __future__ import annotations

from optimizer.errors import CerebroError

__all__ = ["AddressError", "CallError", "RefusedError"]


class AddressError(CerebroError, OSError):
    """Error for a host name or address that belongs to no interface of this machine."""


class CallError(CerebroError, ConnectionError):
    """Error for a call whose endpoint could not be reached or did not complete it."""


class RefusedError(CerebroError, PermissionError):
    """Error for a message that is not signed by the run, is a replay, or does not conform to the protocol."""
