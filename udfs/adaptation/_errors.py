"""Errors of stored features."""

from __future__ import annotations

from optimizer.errors import CerebroError

__all__ = ["AugmentationError", "DamagedFeatureError", "FeatureError", "FeatureSpaceError", "MissingFeatureError"]


class FeatureError(CerebroError, RuntimeError):
    """Failure to compute, store or read features; the message has the reason and a remedy."""


class AugmentationError(FeatureError):
    """Invalid augmentation function; the message names the record and the requirement."""


class MissingFeatureError(FeatureError):
    """Missing outputs of a layer for some rows."""


class DamagedFeatureError(FeatureError):
    """Damaged file of stored outputs."""


class FeatureSpaceError(FeatureError):
    """Too little space for the outputs of a plan, which needs fewer layers."""
