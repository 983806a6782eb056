"""The four sides that score an ensemble of trees, and the method of each that is timed."""

from __future__ import annotations

from typing import Any

__all__ = ["COMPILED", "LIBRARY", "RUNTIME", "SIDES", "TORCH", "method_of"]

LIBRARY, RUNTIME, TORCH, COMPILED = SIDES = ("library", "ONNX Runtime", "torch alone", "compiled")


def method_of(model: Any) -> str:
    """Name the method that is timed: the probabilities of classes, or values."""
    return "predict_proba" if hasattr(model, "predict_proba") else "predict"
