"""Errors of calls."""

from __future__ import annotations

from optimizer.errors import CerebroError

__all__ = ["AddressError", "CallError", "RefusedError"]


class AddressError(CerebroError, OSError):
    """A name or address stands for no interface of this machine."""


class CallError(CerebroError, ConnectionError):
    """The other side could not be reached, or gave up the call."""


class RefusedError(CerebroError, PermissionError):
    """A message without the run's signature, sent before, or not of the protocol; the text says which."""
