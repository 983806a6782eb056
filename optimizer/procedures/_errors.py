"""Errors of procedures and of their logs."""

from __future__ import annotations

from optimizer.errors import CerebroError

__all__ = ["DivergedLogError", "LogError", "ProcedureError"]


class ProcedureError(CerebroError, ValueError):
    """Results that cannot be: of an unknown trial, of an epoch nobody asked for, without the metric that decides."""


class LogError(CerebroError, ValueError):
    """A document of a log that is not one: an unknown kind, a field too many, missing or of another type."""


class DivergedLogError(LogError):
    """A log that this procedure would not have written: another seed, space or setting, or other code."""
