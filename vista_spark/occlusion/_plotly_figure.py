"""Interactive figure of a heat map over its image, drawn by plotly."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from udfs.driver.interactive import graph_objects
from vista_spark.occlusion._caption import map_title
from vista_spark.occlusion._caveats import RANDOM_WEIGHTS, score_kind
from vista_spark.occlusion._heat_map_figure import cell_edges, color_map, color_scale

if TYPE_CHECKING:
    from collections.abc import Sequence

    import plotly.graph_objects as go
    from numpy.typing import NDArray

    from vista_spark.occlusion._base_explanation import Explained

__all__ = ["interactive_heat_map"]

# Steps of the colour scale.
_STEPS = 64


def interactive_heat_map(
    explanation: Explained, image: NDArray[np.uint8], patches: Sequence[Sequence[str]], palette: str
) -> go.Figure:
    """Draw a heat map over its image, in grey; the pointer shows the description of a place's patch and its score."""
    graphs = graph_objects()
    scale = color_scale(explanation, palette)
    colors = color_map(palette, is_translucent=True)
    shares = np.linspace(0, 1, _STEPS)
    steps = [
        [share, f"rgba({','.join(str(round(255 * part)) for part in rgb)},{alpha:.3f})"]
        for share, (*rgb, alpha) in zip(shares, colors(shares), strict=True)
    ]
    grey = np.repeat(image.mean(axis=2, keepdims=True), 3, axis=2).astype(np.uint8)
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
                customdata=[list(row) for row in patches],
                hovertemplate=f"%{{customdata}}<br>{kind} with the patch there: %{{z:.4g}}<extra></extra>",
            ),
        ]
    )
    warning = f"<b>{RANDOM_WEIGHTS}</b><br>" if explanation.has_random_weights else ""
    figure.update_layout(title={"text": warning + map_title(explanation, scale), "font": {"size": 13}})
    figure.update_xaxes(visible=False)
    figure.update_yaxes(visible=False)
    return figure
