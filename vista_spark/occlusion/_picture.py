"""Pictures of heat maps: over an image, beside a series, as a plane."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from optimizer.errors import nearest
from vista_spark.errors import InvalidArgumentError
from vista_spark.occlusion._caption import caption, map_title
from vista_spark.occlusion._scale import fitting_scale, seed_scale
from vista_spark.occlusion._trust import RANDOM_WEIGHTS, score_kind

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.collections import QuadMesh
    from matplotlib.colors import Colormap
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from optimizer.occlusion import OcclusionGrid
    from vista_spark.occlusion._base import Explained
    from vista_spark.occlusion._scale import ColorScale

__all__ = ["PALETTE", "cell_edges", "color_map", "draw_over_image", "plot_image", "plot_tensor", "scale_of"]

PALETTE = "RdBu"
"""Red where covering a place lowers the score, blue where it raises it.

Red means "this counts" in the seeds' pictures, too, and red and blue differ for every common form of colour blindness,
which red and green, or jet's colours, do not.
"""

_SEED_PALETTE = "jet_r"

# Opacity of the colours over an image: none where a place changes nothing, so that the image shows there.
_OPACITY, _RISE = 0.9, 0.7
_SEED_OPACITY = 0.6

# Largest share of white in the grey image under the colours, so that dark colours are seen on dark images.
_BRIGHTENED = 0.25

_COLORS = 256
_TITLE, _SMALL = 9, 8


def plot_image(explanation: Explained, image: NDArray[np.uint8], palette: str = PALETTE) -> Figure:
    """Draw an image, and beside it the heat map over it, with a caption.

    Parameters
    ----------
    explanation : Explained
    image : array of uint8, of shape (height, width, 3)
    palette : str
        As for :func:`draw_over_image`.
    """
    from udfs.driver.figure import NotebookFigure  # only who draws pays for matplotlib

    figure = NotebookFigure(figsize=(9.5, 5), layout="constrained")
    left, right = figure.subplots(1, 2)
    left.imshow(image)
    left.set_axis_off()
    left.set_title(f"predicted: {explanation.name_of(explanation.predicted)}", fontsize=_TITLE, wrap=True)
    shown = draw_over_image(explanation, image, right, palette)
    right.set_title(map_title(explanation, scale_of(explanation, palette)), fontsize=_TITLE, wrap=True)
    _color_bar(figure, shown, right, explanation)
    _say(figure, explanation)
    return figure


def draw_over_image(explanation: Explained, image: NDArray[np.uint8], axes: Axes, palette: str = PALETTE) -> QuadMesh:
    """Draw a heat map over its image, in grey, on the caller's axes; the mesh returned is for a colour bar.

    Parameters
    ----------
    explanation : Explained
    image : array of uint8, of shape (height, width, 3)
    axes : matplotlib.axes.Axes
    palette : str
        A colour map of matplotlib, the low end first: its middle is the whole image's score, its limits fit the data.
        ``"jet_r"`` has the limits of Krypton's pictures, 0.75 and 1.25 times the probability (section 6.5).

    Raises
    ------
    InvalidArgumentError
        An unknown palette; ``"jet_r"`` for a score that is not a probability.
    """
    height, width = image.shape[:2]
    brightness = image.mean(axis=2) / 255
    axes.imshow(_BRIGHTENED + (1 - _BRIGHTENED) * brightness, cmap="gray", vmin=0, vmax=1, extent=(0, width, height, 0))
    axes.set_axis_off()
    return _mesh(explanation, axes, palette, is_translucent=True)


def plot_tensor(explanation: Explained, tensor: NDArray[np.float32], palette: str = PALETTE) -> Figure:
    """Draw the channels of a series, and below them the heat map; or the heat map of a plane.

    Parameters
    ----------
    explanation : Explained
    tensor : array of float32, of shape (channels, ...)
    palette : str
        Of a plane, as for :func:`draw_over_image`.

    Raises
    ------
    InvalidArgumentError
        A heat map of three axes; a palette as for :func:`draw_over_image`.
    """
    from udfs.driver.figure import NotebookFigure  # only who draws pays for matplotlib

    heat_map, grid = explanation.heat_map, explanation.grid
    if heat_map.ndim > 2:  # a page has two axes
        raise InvalidArgumentError(f"a heat map of {heat_map.ndim} axes: draw its planes, heat_map[0] and so on")
    scale = scale_of(explanation, palette)
    figure = NotebookFigure(figsize=(9.5, 5), layout="constrained")
    if heat_map.ndim == 1:
        above, below = figure.subplots(2, 1, sharex=True)
        above.plot(tensor.T, linewidth=0.8)
        predicted = explanation.name_of(explanation.predicted)
        above.set_title(f"predicted: {predicted}; {len(tensor)} channels", fontsize=_TITLE)
        below.plot(_middles(grid, 0), heat_map, marker=".", color="black", linewidth=0.8)
        below.axhline(explanation.probability, linestyle=":", color="grey")
        below.set_ylim(scale.low, scale.high)
        if scale.extend != "neither":
            below.set_ylim(min(scale.low, np.nanmin(heat_map)), max(scale.high, np.nanmax(heat_map)))
        below.set_ylabel(score_kind(explanation.kind), fontsize=_SMALL)
        below.set_title(map_title(explanation, scale), fontsize=_TITLE)
    else:
        axes = figure.subplots()
        shown = _mesh(explanation, axes, palette, is_translucent=False)
        axes.set_xlim(0, grid.image[1])
        axes.set_ylim(grid.image[0], 0)
        axes.set_title(map_title(explanation, scale), fontsize=_TITLE, wrap=True)
        _color_bar(figure, shown, axes, explanation)
    _say(figure, explanation)
    return figure


def scale_of(explanation: Explained, palette: str) -> ColorScale:
    if palette != _SEED_PALETTE:
        return fitting_scale(explanation.heat_map, explanation.probability)
    if score_kind(explanation.kind) != "probability":
        raise InvalidArgumentError(
            f'palette="{_SEED_PALETTE}" has its limits at 0.75 and 1.25 of a probability, and this heat map is of '
            f'{explanation.score!r}: take another palette, as "{PALETTE}"'
        )
    return seed_scale(explanation.heat_map, explanation.probability)


def _mesh(explanation: Explained, axes: Axes, palette: str, *, is_translucent: bool) -> QuadMesh:
    scale = scale_of(explanation, palette)
    mesh = axes.pcolormesh(
        cell_edges(explanation.grid, 1), cell_edges(explanation.grid, 0), np.ma.masked_invalid(explanation.heat_map),
        cmap=color_map(palette, is_translucent=is_translucent), vmin=scale.low, vmax=scale.high,
    )  # fmt: skip
    colors: Any = mesh.cmap
    colors.colorbar_extend = scale.extend  # read by Figure.colorbar, also by a caller's own
    return mesh


def color_map(palette: str, *, is_translucent: bool) -> Colormap:
    """Find a colour map; over an image, make it the more opaque the farther a value is from the middle."""
    from matplotlib import colormaps  # only who draws pays for matplotlib
    from matplotlib.colors import ListedColormap

    if palette not in colormaps:
        raise InvalidArgumentError(
            f"palette={palette!r}{nearest(palette, list(colormaps))}; {PALETTE!r}, {_SEED_PALETTE!r}, or another "
            "colour map of matplotlib"
        )
    colors = colormaps[palette](np.linspace(0, 1, _COLORS))
    if is_translucent:
        distance = np.abs(np.linspace(-1, 1, _COLORS))
        colors[:, 3] = _SEED_OPACITY if palette == _SEED_PALETTE else _OPACITY * distance**_RISE
    return ListedColormap(colors, name=palette)


def _color_bar(figure: Figure, shown: QuadMesh, axes: Axes, explanation: Explained) -> None:
    bar = figure.colorbar(shown, ax=axes)
    bar.set_label(
        f"{score_kind(explanation.kind)} with the place covered\n"
        "\N{LEFTWARDS ARROW} the place speaks for it       the place speaks against it \N{RIGHTWARDS ARROW}",
        fontsize=_SMALL,
    )
    bar.ax.tick_params(labelsize=_SMALL)
    bar.ax.axhline(explanation.probability, color="black", linewidth=1)
    if explanation.kind == "probability":  # limits are symmetric, probabilities are not
        low, high = shown.get_clim()
        bar.ax.set_ylim(max(low, 0.0), min(high, 1.0))


def _say(figure: Figure, explanation: Explained) -> None:
    figure.supxlabel(caption(explanation), fontsize=_SMALL, x=0.02, ha="left")
    if explanation.has_random_weights:
        figure.suptitle(RANDOM_WEIGHTS, color="red", weight="bold")


def _middles(grid: OcclusionGrid, axis: int) -> NDArray[np.float64]:
    """Middles of the patches on an axis: a place stands for the middle of its patch."""
    return np.asarray(grid.starts(axis) + grid.patch[axis] / 2, np.float64)


def cell_edges(grid: OcclusionGrid, axis: int) -> NDArray[np.float64]:
    """Edges of the places' cells on an axis: half-way between two middles, for the last place may be nearer."""
    middles, half = _middles(grid, axis), grid.stride[axis] / 2
    between = (middles[:-1] + middles[1:]) / 2
    return np.concatenate([[middles[0] - half], between, [middles[-1] + half]])
