"""Caveats of a heat map: random weights, flat maps, and the name of its score."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vista_spark.occlusion._color_scale import ColorScale

__all__ = ["RANDOM_WEIGHTS", "flatness", "in_digits", "score_kind"]

RANDOM_WEIGHTS = "RANDOM WEIGHTS: this heat map says nothing about the image"


def score_kind(kind: str) -> str:
    """Return the display name of a kind of score: ``"probability"``, ``"log-odds"``, ``"score"``, ..."""
    return {"callable": "score", "log_odds": "log-odds"}.get(kind, kind)


def flatness(kind: str, scale: ColorScale) -> str:
    """Return a notice that no place changes the score by more than rounding; empty where one does."""
    if not scale.is_flat:
        return ""
    centre = in_digits(scale.centre)
    return f"flat: no place changes its {score_kind(kind)} of {centre} by more than {scale.largest:.1e}"


def in_digits(value: float) -> str:
    """Format a number with two significant digits."""
    return f"{value:.2f}" if abs(value) >= 0.01 or value == 0 else f"{value:.2g}"
