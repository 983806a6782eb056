"""Words beside a heat map: the class, its score, and how the map was made."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vista_spark.occlusion._trust import flatness, in_digits, score_kind

if TYPE_CHECKING:
    from vista_spark.occlusion._base import Explained
    from vista_spark.occlusion._scale import ColorScale

__all__ = ["caption", "map_title"]


def map_title(explanation: Explained, scale: ColorScale) -> str:
    """Say what the colours are of; for a flat heat map, that there is nothing to see."""
    name, kind = explanation.name_of(explanation.target), score_kind(explanation.kind)
    flat = flatness(explanation.kind, scale)
    if flat:
        return f"{name}, {flat}"
    return f"{kind} of {name} with the patch at each place ({in_digits(scale.centre)} without)"


def caption(explanation: Explained) -> str:
    """List the five largest elements, the patch and its places, the mode, its likeness, and the score in words."""
    grid = explanation.grid
    patch, stride, places = (" x ".join(map(str, sizes)) for sizes in (grid.patch, grid.stride, grid.shape))
    made = f"{explanation.mode}, {explanation.seconds:.1f} s"
    if explanation.likeness is not None:
        made += f", estimated SSIM with the exact heat map {explanation.likeness:.2f}"
    elif explanation.mode == "approximate":
        made += ", SSIM with the exact heat map not estimated"
    best = ", ".join(f"{explanation.name_of(number)} {in_digits(value)}" for number, value in explanation.top)
    lines = [best, f"patch {patch}, stride {stride}, {places} places; {made}", explanation.score]
    return "\n".join(line for line in lines if line)
