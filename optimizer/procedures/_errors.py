"""Errors of procedures and of their logs."""

from __future__ import annotations

from optimizer.errors import CerebroError

__all__ = ["DivergedLogError", "LogError", "ProcedureError"]


class ProcedureError(CerebroError, ValueError):
    """Impossible results: an unknown trial, an epoch that was not granted, or a missing metric."""


class LogError(CerebroError, ValueError):
    """Invalid document of a log: an unknown kind, or a field that is unknown, missing or of another type."""


class DivergedLogError(LogError):
    """Log of a procedure with another seed, space, setting or version."""
