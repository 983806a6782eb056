"""What is wrong with a patch, a grid of them or a tuning."""

from __future__ import annotations

from optimizer.errors import CerebroError

__all__ = ["PatchError"]


class PatchError(CerebroError, ValueError):
    """A patch, a stride, a region or a fraction that cannot be; the message has the value and what would do."""
