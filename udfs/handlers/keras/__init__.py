"""The framework Keras."""

from udfs.handlers.keras._framework import FRAMEWORK

__all__ = ["FRAMEWORK"]
