"""Error of a gang, for all backends."""

from __future__ import annotations

from optimizer.errors import CerebroError

__all__ = ["GangError"]


class GangError(CerebroError, RuntimeError):
    """Error of a gang whose tasks could not connect, or of which a task left; the cause is the error of that task."""
