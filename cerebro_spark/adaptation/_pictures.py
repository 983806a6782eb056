"""The picture of a campaign: records through the frozen layers, and the best model, cycle by cycle."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.figure import Figure

    from cerebro_spark.adaptation._cycle import CycleResult

__all__ = ["cycles_figure"]

_ALONE, _HERE = "0.8", "tab:blue"


def cycles_figure(cycles: Sequence[CycleResult], metric: str) -> Figure:
    """Draw, by labelled records, what passed the frozen layers beside what would have, and the best model's metric.

    Parameters
    ----------
    cycles : sequence of CycleResult
        In their order.
    metric : str
        Name of their score.
    """
    from udfs.driver.figure import NotebookFigure  # imports matplotlib

    figure = NotebookFigure(figsize=(10, 3.6), layout="constrained")
    passes, scores = figure.subplots(1, 2)
    places = range(len(cycles))
    for shift, colour, label, values in (
        (-0.2, _ALONE, "each configuration by itself", [cycle.passes_alone for cycle in cycles]),
        (0.2, _HERE, "here", [cycle.passes for cycle in cycles]),
    ):
        bars = passes.bar([place + shift for place in places], values, width=0.4, color=colour, label=label)
        # A run that was over before it was read again has no number.
        passes.bar_label(bars, ["" if math.isnan(value) else f"{value:,.0f}" for value in values], fontsize=8)
    passes.set_xticks(places, [f"{cycle.records:,}" for cycle in cycles])
    passes.set_xlabel("labelled records, cycle by cycle")
    passes.set_title("records through the frozen layers, in a cycle")
    passes.legend(loc="upper left", fontsize=8)
    scores.plot([cycle.records for cycle in cycles], [cycle.score for cycle in cycles], marker="o", color=_HERE)
    scores.set_xlabel("labelled records")
    scores.set_title(f"best {metric}, on records held out")
    scores.set_xticks([cycle.records for cycle in cycles])
    best = max((cycle.score for cycle in cycles), default=0.0)
    if all(0 <= cycle.score <= best for cycle in cycles) and best > 0:
        # Few records are held out at first: from 0 on, their noise does not look like a trend.
        scores.set_ylim(0, 1.1 * best)
    return figure
