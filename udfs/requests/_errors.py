"""Errors that end a request."""

from __future__ import annotations

from optimizer.errors import CerebroError

__all__ = ["RequestCancelled"]


class RequestCancelled(CerebroError):  # noqa: N818 - no error: the user asked for it
    """Request that its user has cancelled; the pool raises it in the handler, which need not catch it."""
