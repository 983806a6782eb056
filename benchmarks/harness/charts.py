"""Bars and lines in one style, without pyplot and its global state."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from matplotlib.figure import Figure
from matplotlib.patches import Patch

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from matplotlib.axes import Axes

__all__ = ["bars", "grouped", "lines", "panels"]

_CHOSEN, _PLAIN, _PALE, _GREY = "#d95f02", "#1f77b4", "#f2c48d", "#6c757d"
_MARKERS = "osD^vP*X"


def panels(title: str, count: int = 1, *, height: float = 3.6) -> tuple[Figure, list[Axes]]:
    """Create a figure with ``count`` axes side by side."""
    figure = Figure(figsize=(8 if count == 1 else 5 * count, height), layout="constrained")
    axes = list(figure.subplots(1, count, squeeze=False)[0])
    for one in axes:
        one.spines[["top", "right"]].set_visible(False)
    figure.suptitle(title)
    return figure, axes


def bars(
    axes: Axes,
    values: Mapping[str, float],
    xlabel: str,
    *,
    chosen: str,
    rest: Mapping[str, float] | None = None,
    form: str = "%.1f",
) -> None:
    """Horizontal bars, the first on top, one of them chosen.

    Parameters
    ----------
    axes : Axes
    values : mapping of str to float
    xlabel : str
    chosen : str
        The bar that stands out.
    rest : mapping of str to float, optional
        What is put on top of each, training for example.
    form : str
        Of the number at a bar.
    """
    places = list(range(len(values)))[::-1]
    colours = [_CHOSEN if name == chosen else _PLAIN for name in values]
    drawn = axes.barh(places, list(values.values()), color=colours)
    if rest:
        axes.barh(places, [rest[name] for name in values], left=list(values.values()), color=_PALE)
        handles = [Patch(color=_PLAIN, label="inference"), Patch(color=_PALE, label="the rest")]
        axes.legend(handles=handles, frameon=False, fontsize="small")
        axes.bar_label(drawn, fmt=form, label_type="center", color="white")
    else:
        axes.bar_label(drawn, fmt=form, padding=3)
    axes.set_yticks(places, list(values))
    axes.margins(x=0.12)
    axes.set_xlabel(xlabel)


def lines(
    axes: Axes,
    xs: Sequence[float],
    series: Mapping[str, Sequence[float]],
    xlabel: str,
    ylabel: str,
    *,
    logarithmic: bool = False,
    ideal: Sequence[float] | None = None,
) -> None:
    """A line a series over few places, which are marked; what is not finite is left out.

    Parameters
    ----------
    axes : Axes
    xs : sequence of float
    series : mapping of str to sequence of float
    xlabel, ylabel : str
    logarithmic : bool
        Of the places.
    ideal : sequence of float, optional
        A dashed line.
    """
    if ideal is not None:
        axes.plot(xs, ideal, color=_GREY, linestyle="--", linewidth=1, label="ideal")
    for number, (name, ys) in enumerate(series.items()):
        shown = [y if math.isfinite(y) else math.nan for y in ys]
        axes.plot(xs, shown, marker=_MARKERS[number % len(_MARKERS)], color=f"C{number}", label=name)
    if logarithmic:
        axes.set_xscale("log", base=2)
    axes.set_xticks(xs, [f"{x:g}" for x in xs])
    axes.minorticks_off()
    axes.margins(y=0.08)
    axes.set_ylim(bottom=0)
    axes.set_xlabel(xlabel)
    axes.set_ylabel(ylabel)
    axes.legend(frameon=False, fontsize="small")


def grouped(axes: Axes, names: Sequence[str], series: Mapping[str, Sequence[float]], ylabel: str) -> None:
    """Upright bars, a group a name."""
    width = 0.8 / len(series)
    for number, (label, values) in enumerate(series.items()):
        left = [place + (number - (len(series) - 1) / 2) * width for place in range(len(names))]
        drawn = axes.bar(left, values, width * 0.95, color=f"C{number}", label=label)
        axes.bar_label(drawn, fmt="%.2f", fontsize="x-small", padding=2)
    axes.set_xticks(range(len(names)), names)
    axes.set_ylabel(ylabel)
    axes.legend(frameon=False, fontsize="small")
