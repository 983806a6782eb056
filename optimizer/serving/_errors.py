"""Errors of profiles, sessions and plans of serving."""

from __future__ import annotations

from optimizer.errors import CerebroError

__all__ = ["InfeasibleError", "ServingError"]


class ServingError(CerebroError, ValueError):
    """Impossible profile, session, query or plan; the message has the value and the allowed ones."""


class InfeasibleError(ServingError):
    """Sessions that no plan serves in time with the given backends and memory."""
