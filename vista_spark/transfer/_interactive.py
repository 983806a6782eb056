"""Interactive figure of the scores by layer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from udfs.driver.interactive import graph_objects

if TYPE_CHECKING:
    import pandas as pd
    import plotly.graph_objects as go

__all__ = ["interactive_scores"]


def interactive_scores(table: pd.DataFrame, metric: str, *, baseline: float, best: str, title: str) -> go.Figure:
    """Draw a bar for each set of features, of a table as :meth:`TransferResult.to_pandas` gives it.

    ``best`` is the ``features`` of its row.
    """
    graphs = graph_objects()
    facts = ["size", "lift", "lift_low", "lift_high", "inference_seconds", "training_seconds", "gflops"]
    known = table[facts].astype(object).where(table[facts].notna(), "-")
    sure = table["low"].notna().any()
    bar = graphs.Bar(
        orientation="h",
        x=table[metric],
        y=table["features"],
        marker={"color": ["#d95f02" if name == best else "#1f77b4" for name in table["features"]]},
        error_x={
            "type": "data",
            "symmetric": False,
            "array": (table["high"] - table[metric]).tolist(),
            "arrayminus": (table[metric] - table["low"]).tolist(),
        }
        if sure
        else None,
        customdata=known.to_numpy(),
        hovertemplate="<b>%{y}</b><br>"
        f"{metric} %{{x:.4f}}, lift %{{customdata[1]:.4f}} (%{{customdata[2]:.4f}} to %{{customdata[3]:.4f}})<br>"
        "%{customdata[0]} features, %{customdata[6]} GFLOPs an image<br>"
        "inference %{customdata[4]:.1f} s, training %{customdata[5]:.1f} s<extra></extra>",
    )
    figure = graphs.Figure([bar])
    figure.add_vline(baseline, line={"dash": "dash", "color": "#6c757d"})
    figure.update_layout(title=title, xaxis_title=metric, yaxis={"autorange": "reversed"})
    return figure
