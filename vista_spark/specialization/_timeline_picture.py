"""Picture of a timeline: phases, models, cost and accuracy."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd

if TYPE_CHECKING:
    from collections.abc import Iterable

    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["draw_timeline"]

_COLOURS = {
    "explore": "#b0b7bf",
    "train": "#e6ab02",
    "trial": "#7570b3",
    "specialized": "#1b9e77",
    "repeat": "#a6d854",
    "late": "#d95f02",
}
_STREAMS = 4
_MODELS = 10


def draw_timeline(counts: pd.DataFrame, table: pd.DataFrame, width: float) -> Figure:
    """Draw a column of three panels per stream: phases, models, and running cost and accuracy.

    Parameters
    ----------
    counts, table : DataFrame
        Frames by interval, phase and model, and the running values, as in ``SpecializationTimeline``.
    width : float
        Length of an interval.
    """
    from udfs.driver.figure import NotebookFigure  # half a second that workers need not spend

    streams = list(dict.fromkeys(None if pd.isna(each) else each for each in counts["stream"]))
    shown = streams[:_STREAMS]
    figure = NotebookFigure(figsize=(max(7.5, 4.5 * len(shown)), 5.4), layout="constrained")
    panels = figure.subplots(3, len(shown), sharex="col", squeeze=False, height_ratios=(1, 1.3, 1.4))
    for place, (stream, column) in enumerate(zip(shown, panels.T, strict=True)):
        part, values = (
            each[each["stream"].isna() if stream is None else each["stream"] == stream] for each in (counts, table)
        )
        start = part["t"].min()
        _draw_phases(column[0], part.assign(t=part["t"] - start), width)
        _draw_models(column[1], part.assign(t=part["t"] - start), width)
        _draw_running(column[2], values.assign(t=values["t"] - start + width))
        column[0].set_title(stream or ("null" if len(streams) > 1 else "all frames"))
        column[2].set_xlabel("time since the first frame (s)")
        if place == 0:
            column[0].set_ylabel("phase\n(share of frames)")
            column[1].set_ylabel("model")
            column[2].set_ylabel("since the beginning")
    upper, lower = _legend(panels[0]), _legend(panels[2])
    figure.legend(upper.values(), upper, frameon=False, ncols=len(upper), loc="outside upper center")
    figure.legend(lower.values(), lower, frameon=False, ncols=len(lower), loc="outside lower center")
    if len(streams) > len(shown):
        figure.suptitle(f"the first {len(shown)} of {len(streams)} streams")
    return figure


def _legend(row: Iterable[Axes]) -> dict[str, Artist]:
    """Return what the panels of a row show, by label."""
    pairs = [pair for axes in row for pair in zip(*axes.get_legend_handles_labels(), strict=True)]
    return {str(label): handle for handle, label in pairs}


def _draw_phases(axes: Axes, counts: pd.DataFrame, width: float) -> None:
    shares = counts.pivot_table(index="t", columns="phase", values="frames", aggfunc="sum", fill_value=0)
    shares = shares.div(shares.sum(axis=1), axis=0)
    below = pd.Series(0.0, index=shares.index)
    for phase in (each for each in _COLOURS if each in shares):
        axes.bar(shares.index, shares[phase], width, below, align="edge", color=_COLOURS[phase], label=phase)
        below += shares[phase]
    axes.set(ylim=(0, 1), yticks=(0, 1))
    axes.spines[["top", "right"]].set_visible(False)


def _draw_models(axes: Axes, counts: pd.DataFrame, width: float) -> None:
    totals = counts.groupby("model")["frames"].sum().sort_values(ascending=False, kind="stable")
    named = set(totals.index[:_MODELS])
    rows = counts.assign(model=counts["model"].where(counts["model"].isin(named), "other experts"))
    order = list(dict.fromkeys(["oracle", *rows.sort_values("t", kind="stable")["model"]]))
    sums = rows.groupby(["t", "model"], as_index=False)["frames"].sum()
    share = sums["frames"] / sums.groupby("t")["frames"].transform("sum")
    for time, model, part in zip(sums["t"], sums["model"], share, strict=True):
        axes.barh(
            order.index(model),
            width,
            0.8,
            time,
            align="center",
            alpha=max(0.15, part),
            color="#1f77b4" if model == "oracle" else "#1b9e77",
            linewidth=0,
        )
    axes.set_yticks(range(len(order)), order, fontsize=7)
    axes.set_ylim(len(order) - 0.4, -0.6)
    axes.spines[["top", "right"]].set_visible(False)


def _draw_running(axes: Axes, table: pd.DataFrame) -> None:
    axes.axhline(1, color="0.5", linestyle="--", linewidth=1, label="oracle on every frame")
    axes.plot(table["t"], table["running_cost"], color="#d95f02", label="cost, relative to the oracle")
    if table["accuracy"].notna().any():
        axes.plot(table["t"], table["accuracy"], color="#1f77b4", label="accuracy")
    axes.set_ylim(0, max(1.1, 1.05 * table["running_cost"].max()))
    axes.spines[["top", "right"]].set_visible(False)
