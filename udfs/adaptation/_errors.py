"""Errors about stored features."""

from __future__ import annotations

from optimizer.errors import CerebroError

__all__ = ["AugmentationError", "DamagedFeatureError", "FeatureError", "FeatureSpaceError", "MissingFeatureError"]


class FeatureError(CerebroError, RuntimeError):
    """Features cannot be computed, stored or read; the message says which, why, and what would help."""


class AugmentationError(FeatureError):
    """A function that augments records is not usable; the message names the record, and what it has to give."""


class MissingFeatureError(FeatureError):
    """A layer's outputs are not stored for some rows."""


class DamagedFeatureError(FeatureError):
    """A file of stored outputs is not what was written."""


class FeatureSpaceError(FeatureError):
    """The outputs that a plan wants stored take more room than there is: plan again with fewer layers."""
