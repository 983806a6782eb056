"""Picture of an ablation: the effect of each part with its interval."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from optimizer.ablation import BETTER, NOT_DISTINGUISHABLE, WORSE
from udfs.driver.figure import NotebookFigure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from optimizer.ablation import Comparison

__all__ = ["effects"]

_COLOURS = {WORSE: "tab:red", BETTER: "tab:blue", NOT_DISTINGUISHABLE: "tab:gray"}


def effects(comparison: Comparison, metric: str) -> Figure:
    """Draw the effect of each part on the metric, one line per part; random controls are hollow."""
    drawn = [effect for effect in comparison.effects if math.isfinite(effect.interval.mean)]
    figure = NotebookFigure(figsize=(9, 1.6 + 0.35 * len(drawn)), layout="constrained")
    axes = figure.subplots()
    labelled: set[str] = set()
    for place, effect in enumerate(drawn):
        interval = effect.interval
        control = effect.variant.is_control
        colour = _COLOURS.get(effect.verdict, "tab:gray")
        label = "random control" if control else effect.verdict
        axes.errorbar(
            interval.mean,
            place,
            xerr=[[interval.mean - interval.low], [interval.high - interval.mean]],
            marker="o",
            color=colour,
            markerfacecolor="white" if control else colour,
            linestyle="none",
            capsize=3,
            alpha=0.6 if control else 1.0,
            label=label if label not in labelled else None,
        )
        labelled.add(label)
    axes.axvline(0, color="black", linewidth=0.8)
    names = [f"{effect.rank}. {effect.variant.name}" if effect.rank else effect.variant.name for effect in drawn]
    axes.set_yticks(range(len(drawn)), names)
    axes.invert_yaxis()
    axes.set_xlabel(f"loss of {metric} without the part; right of 0: the model is worse without it")
    axes.set_title(f"{comparison.repeats} repeats; full model: {metric} {comparison.full:.4g}")
    if labelled:
        axes.legend(fontsize=8, loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False)
    return figure
