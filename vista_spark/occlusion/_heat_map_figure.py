"""Matplotlib figures of heat maps: over an image, below a series, or as a plane.

A heat map has a value for each place of a patch that covers a part of the input: the score of the target, such as the
probability of a class, with the patch there. The middle of the colour scale is the score of the whole input.
"""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any

import numpy as np

from optimizer.errors import nearest
from vista_spark.errors import InvalidArgumentError
from vista_spark.occlusion._caption import caption, map_title
from vista_spark.occlusion._caveats import RANDOM_WEIGHTS, score_kind
from vista_spark.occlusion._color_scale import fitting_scale, krypton_scale

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.collections import QuadMesh
    from matplotlib.colors import Colormap
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from optimizer.occlusion import OcclusionGrid
    from vista_spark.occlusion._base_explanation import Explained
    from vista_spark.occlusion._color_scale import ColorScale

__all__ = ["PALETTE", "cell_edges", "color_map", "color_scale", "draw_over_image", "plot_image", "plot_tensor"]

PALETTE = "RdBu"
"""Red where covering a place lowers the score, blue where it raises it.

Red marks important places in Krypton's pictures as well, and red and blue differ for every common form of colour
blindness, unlike red and green or the colours of jet.
"""

# Colours of the figures in the Krypton paper. They come with fixed limits and the same opacity everywhere.
_KRYPTON_PALETTE = "jet_r"
_KRYPTON_OPACITY = 0.6

# Opacity of other colours over an image: 0 in the middle of the scale, where a place changes nothing, so that the image
# is visible there, and in proportion to the change up to _MAX_OPACITY at both ends.
_MAX_OPACITY = 0.9

# Grey level of black pixels under the colours, so that dark colours are visible on dark images.
_BLACK_LEVEL = 0.25

# Number of colours in a colour map.
_COLORS = 256

# Font sizes in points.
_TITLE_SIZE, _TEXT_SIZE = 9, 8

# Characters per line above the left and the right one of two panels, above a panel alone, and below the figure.
_LEFT, _RIGHT, _WIDE, _CAPTION = 48, 74, 100, 130

# Inches above the titles of two panels.
_TITLE_PAD = 0.16

# Share of a line that each of several may have: constrained layout cuts off titles that are wider than their axes.
_SEVERAL = 0.75


def plot_image(explanation: Explained, image: NDArray[np.uint8], palette: str = PALETTE) -> Figure:
    """Draw an image, and its heat map over the grey image next to it, with a caption."""
    from udfs.driver.figure import NotebookFigure

    figure = NotebookFigure(figsize=(9.5, 5), layout="constrained")
    # Constrained layout reserves too little for titles of several lines above axes of a fixed aspect.
    figure.set_layout_engine("constrained", h_pad=_TITLE_PAD)
    left, right = figure.subplots(1, 2)
    left.imshow(image)
    left.set_axis_off()
    _set_title(left, f"predicted: {explanation.name_of(explanation.predicted)}", _LEFT)
    shown = draw_over_image(explanation, image, right, palette)
    _set_title(right, map_title(explanation, color_scale(explanation, palette)), _RIGHT)
    _color_bar(figure, shown, right, explanation)
    _add_caption(figure, explanation)
    return figure


def draw_over_image(explanation: Explained, image: NDArray[np.uint8], axes: Axes, palette: str = PALETTE) -> QuadMesh:
    """Draw a heat map over its image, in grey, on the caller's axes, and return the mesh for a colour bar.

    Raises
    ------
    InvalidArgumentError
        The palette is unknown, or ``"jet_r"`` for a score that is not a probability.
    """
    height, width = image.shape[:2]
    brightness = image.mean(axis=2) / 255
    grey = _BLACK_LEVEL + (1 - _BLACK_LEVEL) * brightness
    axes.imshow(grey, cmap="gray", vmin=0, vmax=1, extent=(0, width, height, 0))
    axes.set_axis_off()
    return _mesh(explanation, axes, palette, is_translucent=True)


def plot_tensor(explanation: Explained, tensor: NDArray[np.float32], palette: str = PALETTE) -> Figure:
    """Draw the channels of a series, and below them the heat map; or the heat map of a plane.

    Raises
    ------
    InvalidArgumentError
        The heat map has three axes, or the palette is one that :func:`draw_over_image` refuses.
    """
    from udfs.driver.figure import NotebookFigure

    heat_map, grid = explanation.heat_map, explanation.grid
    if heat_map.ndim > 2:
        raise InvalidArgumentError(
            f"heat_map must have 1 or 2 axes to be drawn, got {heat_map.ndim}; draw its planes, such as heat_map[0]"
        )
    scale = color_scale(explanation, palette)
    figure = NotebookFigure(figsize=(9.5, 5), layout="constrained")
    if heat_map.ndim == 1:
        above, below = figure.subplots(2, 1, sharex=True)
        above.plot(tensor.T, linewidth=0.8)
        predicted = explanation.name_of(explanation.predicted)
        _set_title(above, f"predicted: {predicted}; {len(tensor)} channels", _WIDE)
        below.plot(_middles(grid, 0), heat_map, marker=".", color="black", linewidth=0.8)
        below.axhline(explanation.probability, linestyle=":", color="grey")
        below.set_ylim(scale.low, scale.high)
        if scale.extend != "neither":
            below.set_ylim(min(scale.low, np.nanmin(heat_map)), max(scale.high, np.nanmax(heat_map)))
        below.set_ylabel(score_kind(explanation.kind), fontsize=_TEXT_SIZE)
        _set_title(below, map_title(explanation, scale), _WIDE)
    else:
        axes = figure.subplots()
        shown = _mesh(explanation, axes, palette, is_translucent=False)
        axes.set_xlim(0, grid.image[1])
        axes.set_ylim(grid.image[0], 0)
        _set_title(axes, map_title(explanation, scale), _WIDE)
        _color_bar(figure, shown, axes, explanation)
    _add_caption(figure, explanation)
    return figure


def _set_title(axes: Axes, text: str, width: int) -> None:
    """Break a title into lines: matplotlib wraps at the figure's edge, beyond the axes of two panels."""
    lines = text if len(text) <= width else textwrap.fill(text, int(_SEVERAL * width))
    axes.set_title(lines, fontsize=_TITLE_SIZE)


def color_scale(explanation: Explained, palette: str) -> ColorScale:
    """Return the limits of the colours: fitted to the heat map, or for ``"jet_r"`` those of the Krypton paper."""
    if palette != _KRYPTON_PALETTE:
        return fitting_scale(explanation.heat_map, explanation.probability)
    if score_kind(explanation.kind) != "probability":
        raise InvalidArgumentError(
            f"palette must be a colour map for any score, such as {PALETTE!r}, got {_KRYPTON_PALETTE!r}, whose limits "
            f"are 0.75 and 1.25 times a probability, for the score {explanation.score!r}"
        )
    return krypton_scale(explanation.heat_map, explanation.probability)


def _mesh(explanation: Explained, axes: Axes, palette: str, *, is_translucent: bool) -> QuadMesh:
    """Draw a heat map as coloured cells."""
    scale = color_scale(explanation, palette)
    mesh = axes.pcolormesh(
        cell_edges(explanation.grid, 1), cell_edges(explanation.grid, 0), np.ma.masked_invalid(explanation.heat_map),
        cmap=color_map(palette, is_translucent=is_translucent), vmin=scale.low, vmax=scale.high,
    )  # fmt: skip
    # Figure.colorbar reads this attribute and draws arrows at its ends, also if the caller adds the colour bar.
    colors: Any = mesh.cmap
    colors.colorbar_extend = scale.extend
    return mesh


def color_map(palette: str, *, is_translucent: bool) -> Colormap:
    """Return a colour map; over an image, values far from the middle are more opaque."""
    from matplotlib import colormaps
    from matplotlib.colors import ListedColormap

    if palette not in colormaps:
        raise InvalidArgumentError(
            f"palette must be {PALETTE!r}, {_KRYPTON_PALETTE!r} or another colour map of matplotlib, got "
            f"{palette!r}{nearest(palette, list(colormaps))}"
        )
    colors = colormaps[palette](np.linspace(0, 1, _COLORS))
    if is_translucent:
        distance = np.abs(np.linspace(-1, 1, _COLORS))
        colors[:, 3] = _KRYPTON_OPACITY if palette == _KRYPTON_PALETTE else _MAX_OPACITY * distance
    return ListedColormap(colors, name=palette)


def _color_bar(figure: Figure, shown: QuadMesh, axes: Axes, explanation: Explained) -> None:
    # Without a common factor of all ticks, which matplotlib would write over the title.
    bar = figure.colorbar(shown, ax=axes, format="{x:.6g}")
    bar.set_label(
        f"{score_kind(explanation.kind)} with the patch at the place\n"
        "\N{LEFTWARDS ARROW} the place supports the target       the place opposes the target \N{RIGHTWARDS ARROW}",
        fontsize=_TEXT_SIZE,
    )
    bar.ax.tick_params(labelsize=_TEXT_SIZE)
    bar.ax.axhline(explanation.probability, color="black", linewidth=1)
    if explanation.kind == "probability":
        # The limits are symmetric around the score and may lie outside of 0 to 1.
        low, high = shown.get_clim()
        bar.ax.set_ylim(max(low, 0.0), min(high, 1.0))


def _add_caption(figure: Figure, explanation: Explained) -> None:
    lines = "\n".join(textwrap.fill(line, _CAPTION) for line in caption(explanation).split("\n"))
    figure.supxlabel(lines, fontsize=_TEXT_SIZE, x=0.02, ha="left")
    if explanation.has_random_weights:
        figure.suptitle(RANDOM_WEIGHTS, color="red", weight="bold")


def _middles(grid: OcclusionGrid, axis: int) -> NDArray[np.float64]:
    """Return the coordinates of the middles of the patches along an axis, in pixels."""
    return np.asarray(grid.starts(axis) + grid.patch[axis] / 2, np.float64)


def cell_edges(grid: OcclusionGrid, axis: int) -> NDArray[np.float64]:
    """Return the edges of the cells that show the places along an axis, half-way between the middles of patches."""
    middles, half = _middles(grid, axis), grid.stride[axis] / 2
    between = (middles[:-1] + middles[1:]) / 2
    return np.concatenate([[middles[0] - half], between, [middles[-1] + half]])
