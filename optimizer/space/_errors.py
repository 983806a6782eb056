"""Error of a search space or of a configuration."""

from __future__ import annotations

from optimizer.errors import CerebroError

__all__ = ["SpaceError"]


class SpaceError(CerebroError, ValueError):
    """Impossible domain, condition or seed, or a configuration outside its space; the message names the field."""
