"""A heat map over its image, with the score of a place under the pointer."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from udfs.driver.interactive import graph_objects
from vista_spark.occlusion._caption import map_title
from vista_spark.occlusion._picture import cell_edges, color_map, scale_of
from vista_spark.occlusion._trust import RANDOM_WEIGHTS, score_kind

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from vista_spark.occlusion._explanation import Explanation

__all__ = ["interactive_explanation"]

# Steps of a colour scale: as many as a screen tells apart.
_STEPS = 64


def interactive_explanation(explanation: Explanation, palette: str) -> go.Figure:
    """Draw a heat map over its image, in grey; the pointer reads a place's patch and its score."""
    graphs = graph_objects()
    scale = scale_of(explanation, palette)
    colors = color_map(palette, is_translucent=True)
    shares = np.linspace(0, 1, _STEPS)
    steps = [
        [share, f"rgba({','.join(str(round(255 * part)) for part in rgb)},{alpha:.3f})"]
        for share, (*rgb, alpha) in zip(shares, colors(shares), strict=True)
    ]
    grey = np.repeat(explanation.image.mean(axis=2, keepdims=True), 3, axis=2).astype(np.uint8)
    rows, columns = explanation.heat_map.shape
    patches = [[_patch(explanation, row, column) for column in range(columns)] for row in range(rows)]
    kind = score_kind(explanation.kind)
    figure = graphs.Figure(
        [
            graphs.Image(z=grey, hoverinfo="skip"),
            graphs.Heatmap(
                z=np.where(np.isfinite(explanation.heat_map), explanation.heat_map, np.nan),
                # The middle of an image's first pixel is 0 for plotly, and its edge is 0 for us.
                x=cell_edges(explanation.grid, 1) - 0.5,
                y=cell_edges(explanation.grid, 0) - 0.5,
                zmin=scale.low,
                zmax=scale.high,
                colorscale=steps,
                colorbar={"title": {"text": kind}},
                customdata=patches,
                hovertemplate=f"%{{customdata}}<br>{kind} with the patch there: %{{z:.4g}}<extra></extra>",
            ),
        ]
    )
    warning = f"<b>{RANDOM_WEIGHTS}</b><br>" if explanation.has_random_weights else ""
    figure.update_layout(title={"text": warning + map_title(explanation, scale), "font": {"size": 13}})
    figure.update_xaxes(visible=False)
    figure.update_yaxes(visible=False)
    return figure


def _patch(explanation: Explanation, row: int, column: int) -> str:
    (top, bottom), (left, right) = explanation.covered(row, column)
    return f"rows {top} to {bottom}, columns {left} to {right}"
