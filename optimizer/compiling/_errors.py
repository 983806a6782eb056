"""Errors of compiled pipelines."""

from __future__ import annotations

from optimizer.errors import CerebroError, InvalidArgumentError

__all__ = ["CompilingError", "ProgramError", "UnsupportedOperatorError"]


class CompilingError(CerebroError):
    """Base of the errors of compiled pipelines."""


class ProgramError(CompilingError, ValueError):
    """A program that is none: an unknown operator, widths that do not fit, an array that is missing or altered."""


class UnsupportedOperatorError(CompilingError, InvalidArgumentError):
    """A model, or an option of one, that has no translation; the message names both."""
