"""Picture of a catalog: accuracy over memory and latency."""

from __future__ import annotations

from typing import TYPE_CHECKING

from optimizer.variants import MEASURES, pareto_front

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from optimizer.variants import Measurement

__all__ = ["draw_catalog"]

_UNITS = {
    "memory": ("resident memory, MB", 1e-6),
    "storage": ("stored weights, MB", 1e-6),
    "latency": ("latency of an image, ms", 1e3),
    "compute": ("GFLOP per image", 1.0),
    "load": ("loading, ms", 1e3),
}
# Names beside more points than this would cover each other.
_NAMED = 8


def draw_catalog(task: str, measurements: Sequence[Measurement], measures: Sequence[str]) -> Figure:
    """Draw accuracy over each measure, with the Pareto fronts (Figures 4.2 and 4.4 of the thesis)."""
    from udfs.driver.figure import NotebookFigure  # half a second that workers need not spend

    figure = NotebookFigure(figsize=(5 * len(measures), 4), layout="constrained")
    axes = figure.subplots(1, len(measures), sharey=True, squeeze=False)[0]
    for each, measure in zip(axes, measures, strict=True):
        _draw(each, measurements, measure)
    axes[0].set_ylabel("accuracy")
    figure.suptitle(f"{len(measurements)} variants of {task}")
    return figure


def _draw(axes: Axes, measurements: Sequence[Measurement], measure: str) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator  # as above

    front = pareto_front(measurements, measure)
    text, unit = _UNITS[measure]

    def cost(entry: Measurement) -> float:
        return unit * float(getattr(entry, MEASURES[measure]))

    axes.scatter([cost(entry) for entry in measurements], [entry.accuracy for entry in measurements], s=14, c="#b0b7bf")
    axes.plot([cost(entry) for entry in front], [entry.accuracy for entry in front], c="#d95f02", marker="o", ms=4)
    full = measurements[0]
    axes.scatter([cost(full)], [full.accuracy], s=40, c="#1f77b4", zorder=3, label=full.name)
    if len(front) <= _NAMED:
        for entry in front:
            axes.annotate(
                entry.name, (cost(entry), entry.accuracy), xytext=(3, -9), textcoords="offset points", fontsize=7
            )
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xlabel(text)
    axes.legend(loc="lower right")
