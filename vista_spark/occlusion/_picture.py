"""Pictures of heat maps: over an image, beside a series, as a plane."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from vista_spark.errors import InvalidArgumentError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.collections import QuadMesh
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from optimizer.occlusion import OcclusionGrid
    from vista_spark.occlusion._base import Explained

__all__ = ["draw_over_image", "plot_image", "plot_tensor"]


def plot_image(explanation: Explained, image: NDArray[np.uint8]) -> Figure:
    """Draw an image, and beside it the heat map over it."""
    from udfs.driver.figure import NotebookFigure  # noqa: PLC0415 - only who draws pays for matplotlib

    figure = NotebookFigure(figsize=(8.5, 4), layout="constrained")
    left, right = figure.subplots(1, 2)
    left.imshow(image)
    left.set_axis_off()
    left.set_title(f"class {explanation.predicted}")
    shown = draw_over_image(explanation, image, right)
    right.set_title(
        f"probability of class {explanation.target} ({explanation.probability:.2f}) without the patch", fontsize=9
    )
    figure.colorbar(shown, ax=right)
    return figure


def draw_over_image(explanation: Explained, image: NDArray[np.uint8], axes: Axes) -> QuadMesh:
    """Draw a heat map over its image on the caller's axes; the mesh returned is for a colour bar."""
    height, width = image.shape[:2]
    grid = explanation.grid
    rows, columns = (_edges(grid, axis) for axis in (0, 1))
    axes.imshow(image, extent=(0, width, height, 0))
    axes.set_axis_off()
    return axes.pcolormesh(
        columns, rows, explanation.heat_map, cmap="jet_r", alpha=0.6,
        vmin=0.75 * explanation.probability, vmax=min(1.0, 1.25 * explanation.probability),
    )  # fmt: skip


def plot_tensor(explanation: Explained, tensor: NDArray[np.float32]) -> Figure:
    """Draw the channels of a series, and below them the heat map; or the heat map of a plane.

    Raises
    ------
    InvalidArgumentError
        A heat map of three axes.
    """
    from udfs.driver.figure import NotebookFigure  # noqa: PLC0415 - only who draws pays for matplotlib

    heat_map, grid = explanation.heat_map, explanation.grid
    if heat_map.ndim > 2:  # noqa: PLR2004 - a page has two axes
        raise InvalidArgumentError(f"a heat map of {heat_map.ndim} axes: draw its planes, heat_map[0] and so on")
    figure = NotebookFigure(figsize=(8.5, 4), layout="constrained")
    title = f"probability of class {explanation.target} ({explanation.probability:.2f}) without the patch"
    if heat_map.ndim == 1:
        above, below = figure.subplots(2, 1, sharex=True)
        above.plot(tensor.T, linewidth=0.8)
        above.set_title(f"class {explanation.predicted}, {len(tensor)} channels", fontsize=9)
        below.plot(_middles(grid, 0), heat_map)
        below.axhline(explanation.probability, linestyle=":", color="grey")
        below.set_title(title, fontsize=9)
    else:
        axes = figure.subplots()
        shown = axes.pcolormesh(_edges(grid, 1), _edges(grid, 0), heat_map, cmap="jet_r")
        axes.invert_yaxis()
        axes.set_title(title, fontsize=9)
        figure.colorbar(shown, ax=axes)
    return figure


def _middles(grid: OcclusionGrid, axis: int) -> NDArray[np.float64]:
    """Middles of the patches on an axis: a place stands for the middle of its patch."""
    return np.asarray(grid.starts(axis) + grid.patch[axis] / 2, np.float64)


def _edges(grid: OcclusionGrid, axis: int) -> NDArray[np.float64]:
    """Edges of the places' cells on an axis: half-way between two middles, for the last place may be nearer."""
    middles, half = _middles(grid, axis), grid.stride[axis] / 2
    between = (middles[:-1] + middles[1:]) / 2
    return np.concatenate([[middles[0] - half], between, [middles[-1] + half]])
