"""Errors of serving plans and profiles."""

from __future__ import annotations

from optimizer.errors import CerebroError

__all__ = ["InfeasibleError", "ServingError"]


class ServingError(CerebroError, ValueError):
    """A profile, session, query or plan is not valid; the message has the value and the requirement."""


class InfeasibleError(ServingError):
    """No plan serves the sessions in time with the given backends and memory."""
