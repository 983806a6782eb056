"""Error of a patch, a grid of patches or a tuning parameter."""

from __future__ import annotations

from optimizer.errors import CerebroError

__all__ = ["PatchError"]


class PatchError(CerebroError, ValueError):
    """Impossible patch, stride, region or fraction; the message has the value and the allowed ones."""
