"""Errors of approximate model scheduling."""

from __future__ import annotations

from optimizer.errors import CerebroError

__all__ = ["UnservableError"]


class UnservableError(CerebroError, ValueError):
    """Requests that no variant can serve: a useless catalog, exhausted budgets or an impossible deadline."""
