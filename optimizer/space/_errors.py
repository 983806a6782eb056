"""Error of a search space or of a configuration."""

from __future__ import annotations

from optimizer.errors import InvalidArgumentError

__all__ = ["SpaceError"]


class SpaceError(InvalidArgumentError):
    """Impossible domain, condition or seed, or a configuration outside its space; the message names the field."""
