"""Errors of a training unit."""

from __future__ import annotations

from optimizer.errors import CerebroError

__all__ = ["Diverged", "TrainerError", "TrainingError"]


class TrainerError(CerebroError, ValueError):
    """A trainer that cannot be trained; the message says what is wrong with it."""


class TrainingError(CerebroError, RuntimeError):
    """A unit that could not be trained."""


class Diverged(TrainingError):  # noqa: N818 - the field's word for it
    """The loss ceased to be a number."""
