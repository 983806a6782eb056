"""Overlaps in a rendered figure: what a reader could not read."""

from __future__ import annotations

from itertools import combinations, pairwise
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.text import Text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.transforms import Bbox
    from numpy.typing import NDArray

# Pixels by which boxes may touch: those of text have a margin that ink does not fill.
_SLACK = 2.0


def overlaps(figure: Figure) -> list[str]:
    """List texts that another text or a line runs through, legends over marks, and texts outside of the figure."""
    FigureCanvasAgg(figure).draw()
    texts = [(text, _shrunk(text.get_window_extent())) for text in _texts(figure)]
    found = [
        f"{a.get_text()!r} and {b.get_text()!r} overlap"
        for (a, first), (b, second) in combinations(texts, 2)
        if first.overlaps(second)
    ]
    found += [
        f"{text.get_text()!r} is cut off by the figure"
        for text, box in texts
        if not (figure.bbox.x0 <= box.x0 and box.x1 <= figure.bbox.x1 and figure.bbox.y0 <= box.y0)
        or box.y1 > figure.bbox.y1
    ]
    for axes in figure.axes:
        for start, end in (*_segments(axes), *_frame(axes)):
            found += [f"a line runs through {text.get_text()!r}" for text, box in texts if _crosses(box, start, end)]
        legend = axes.get_legend()
        if legend is not None:
            box = _shrunk(legend.get_window_extent())
            bars = [bar for each in figure.axes for bar in each.patches if bar.get_window_extent().width > 0]
            found += ["the legend lies over a bar" for bar in bars if bar.get_window_extent().overlaps(box)]
            lines = [ends for each in figure.axes for ends in _segments(each)]
            found += ["the legend lies over a line" for start, end in lines if _crosses(box, start, end)]
    return found


def _texts(figure: Figure) -> Iterator[Text]:
    # An axis keeps ticks that it does not draw, and axes that are off draw none.
    undrawn = {id(text) for axes in figure.axes for text in _undrawn(axes)}
    for text in figure.findobj(Text):
        if isinstance(text, Text) and text.get_visible() and text.get_text().strip() and id(text) not in undrawn:
            yield text


def _undrawn(axes: Axes) -> Iterator[Text]:
    for axis, limits, place in ((axes.xaxis, axes.get_xlim(), 0), (axes.yaxis, axes.get_ylim(), 1)):
        drawn = {id(text) for text in axis.get_ticklabels() if min(limits) <= text.get_position()[place] <= max(limits)}
        for tick in (*axis.majorTicks, *axis.minorTicks):
            yield from (text for text in (tick.label1, tick.label2) if id(text) not in drawn or not axes.axison)


def _segments(axes: Axes) -> Iterator[tuple[NDArray[np.float64], NDArray[np.float64]]]:
    """Yield the visible pieces of lines, in pixels; grids and spines are no marks."""
    for line in axes.lines:
        if line.get_linestyle() == "None" or not line.get_visible():
            continue
        points = line.get_transform().transform(np.column_stack(line.get_data(orig=False)).astype(float))
        for start, end in pairwise(points):
            if np.isfinite(start).all() and np.isfinite(end).all():
                yield start, end


def _frame(axes: Axes) -> Iterator[tuple[NDArray[np.float64], NDArray[np.float64]]]:
    """Yield the lines around axes."""
    for spine in axes.spines.values():
        if spine.get_visible() and axes.axison:
            start, end = spine.get_transform().transform(spine.get_path().vertices)[:2]
            yield start, end


def _crosses(box: Bbox, start: NDArray[np.float64], end: NDArray[np.float64]) -> bool:
    """Return whether a piece of a line passes a box, by points close to each other on it."""
    count = max(2, int(np.abs(end - start).max() // 2) + 1)
    points = start + np.linspace(0, 1, count)[:, None] * (end - start)
    inside = (points >= (box.x0, box.y0)) & (points <= (box.x1, box.y1))
    return bool(inside.all(axis=1).any())


def _shrunk(box: Bbox) -> Bbox:
    shrunk: Bbox = box.padded(-_SLACK)
    return shrunk
