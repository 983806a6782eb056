"""Title and caption of a heat map."""

from __future__ import annotations

from textwrap import shorten
from typing import TYPE_CHECKING

from vista_spark.occlusion._caveats import flatness, in_digits, score_kind

if TYPE_CHECKING:
    from vista_spark.occlusion._base_explanation import Explained
    from vista_spark.occlusion._color_scale import ColorScale

__all__ = ["caption", "map_title"]

# Characters of a class's name in a caption, which lists five.
_NAME = 44


def map_title(explanation: Explained, scale: ColorScale) -> str:
    """Return the title: the score that the colours show, or that the heat map is flat."""
    name, kind = explanation.name_of(explanation.target), score_kind(explanation.kind)
    flat = flatness(explanation.kind, scale)
    if flat:
        return f"{name}, {flat}"
    return f"{kind} of {name} with the patch at each place ({in_digits(scale.centre)} without)"


def caption(explanation: Explained) -> str:
    """Return the caption: the largest elements, the patch and its places, the mode, the likeness, and the score."""
    grid = explanation.grid
    patch, stride, places = (" x ".join(map(str, sizes)) for sizes in (grid.patch, grid.stride, grid.shape))
    made = f"{explanation.mode}, {explanation.seconds:.1f} s"
    if explanation.likeness is not None:
        made += f", estimated SSIM with the exact heat map {explanation.likeness:.2f}"
    elif explanation.mode == "approximate":
        made += ", SSIM with the exact heat map not estimated"
    best = ", ".join(
        f"{shorten(explanation.name_of(number), _NAME, placeholder='...')} {in_digits(value)}"
        for number, value in explanation.top
    )
    lines = [best, f"patch {patch}, stride {stride}, {places} places; {made}", explanation.score]
    return "\n".join(line for line in lines if line)
