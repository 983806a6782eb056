"""The error of a gang, whatever its backend."""

from __future__ import annotations

from optimizer.errors import CerebroError

__all__ = ["GangError"]


class GangError(CerebroError, RuntimeError):
    """The tasks of a gang could not meet, or one of them left; that task's own error is the cause."""
