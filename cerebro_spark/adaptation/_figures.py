"""Figure of a campaign with its passes through the frozen layers and its best metric by cycle."""

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
    """Plot passes through the frozen layers, with and without groups, and the best metric by labelled records."""
    from udfs.driver.figure import NotebookFigure  # imports matplotlib

    figure = NotebookFigure(figsize=(10, 3.6), layout="constrained")
    passes, scores = figure.subplots(1, 2)
    places = range(len(cycles))
    for shift, colour, label, values in (
        (-0.2, _ALONE, "each configuration by itself: once per epoch", [cycle.passes_alone for cycle in cycles]),
        (0.2, _HERE, "shared: new records once", [cycle.passes for cycle in cycles]),
    ):
        bars = passes.bar([place + shift for place in places], values, width=0.4, color=colour, label=label)
        # A cycle whose run was over before has no number.
        passes.bar_label(bars, ["" if math.isnan(value) else f"{value:,.0f}" for value in values], fontsize=8)
    passes.set_xticks(places, [f"{cycle.records:,}" for cycle in cycles])
    passes.set_xlabel("labelled records, cycle by cycle")
    passes.set_title("records through the frozen layers, in a cycle")
    # Above the tallest bar and its number, which grow from cycle to cycle or do not.
    tallest = max(
        (value for cycle in cycles for value in (cycle.passes_alone, cycle.passes) if value == value), default=0
    )
    passes.set_ylim(0, 1.4 * tallest or 1)
    passes.legend(loc="upper center", fontsize=8, frameon=False)
    scores.plot([cycle.records for cycle in cycles], [cycle.score for cycle in cycles], marker="o", color=_HERE)
    scores.set_xlabel("labelled records")
    scores.set_title(f"best {metric}, on records held out")
    scores.set_xticks([cycle.records for cycle in cycles])
    best = max((cycle.score for cycle in cycles), default=0.0)
    if all(0 <= cycle.score <= best for cycle in cycles) and best > 0:
        # The first cycles have few validation records: an axis from 0 does not show noise as a trend.
        scores.set_ylim(0, 1.1 * best)
    return figure
