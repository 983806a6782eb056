"""Words beside a heat map: the class, its score, how the map was made, and whether it can be trusted."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vista_spark.occlusion._base import Explained
    from vista_spark.occlusion._scale import ColorScale

__all__ = ["caption", "flatness", "map_title", "score_kind", "warning"]


def score_kind(explanation: Explained) -> str:
    """Name the number that is mapped: ``"probability"``, ``"log-odds"``, ``"score"``, ..."""
    return {"callable": "score", "log_odds": "log-odds"}.get(explanation.kind, explanation.kind)


def map_title(explanation: Explained, scale: ColorScale) -> str:
    """Say what the colours are of; for a flat heat map, that there is nothing to see."""
    name, kind = explanation.name_of(explanation.target), score_kind(explanation)
    flat = flatness(explanation, scale)
    if flat:
        return f"{name}, {flat}"
    return f"{kind} of {name} with the patch at each place ({_number(scale.centre)} without)"


def flatness(explanation: Explained, scale: ColorScale) -> str:
    """Say that no place changes the score by more than rounding; empty where one does."""
    if not scale.is_flat:
        return ""
    kind = score_kind(explanation)
    return f"flat: no place changes its {kind} of {_number(scale.centre)} by more than {scale.largest:.1e}"


def caption(explanation: Explained) -> str:
    """List the five largest elements, the patch and its places, the mode, its likeness, and the score in words."""
    grid = explanation.grid
    patch, stride, places = (" x ".join(map(str, sizes)) for sizes in (grid.patch, grid.stride, grid.shape))
    made = f"{explanation.mode}, {explanation.seconds:.1f} s"
    if explanation.likeness is not None:
        made += f", estimated SSIM with the exact heat map {explanation.likeness:.2f}"
    elif explanation.mode == "approximate":
        made += ", SSIM with the exact heat map not estimated"
    best = ", ".join(f"{explanation.name_of(number)} {_number(value)}" for number, value in explanation.top)
    lines = [best, f"patch {patch}, stride {stride}, {places} places; {made}", explanation.score]
    return "\n".join(line for line in lines if line)


def warning(explanation: Explained) -> str:
    """Say that a network drawn at random explains nothing; empty for trained weights."""
    return "RANDOM WEIGHTS: this heat map says nothing about the image" if explanation.has_random_weights else ""


def _number(value: float) -> str:
    return f"{value:.2f}" if abs(value) >= 0.01 or value == 0 else f"{value:.2g}"  # noqa: PLR2004 - two digits
