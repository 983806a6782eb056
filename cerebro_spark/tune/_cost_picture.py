"""Picture of the times and costs of a search by number of workers."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from cerebro_spark.errors import InvalidArgumentError
from optimizer.procedures import cost_front

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from optimizer.procedures import Plan

__all__ = ["draw_costs"]

_COLOURS = {"on demand": "#1f77b4", "spot": "#ff7f0e"}
_HOUR_S = 3600.0


def draw_costs(plan: Plan) -> Figure:
    """Draw the time and cost of each number of workers, and the Pareto front of both (Cerebro, section 4.3.4).

    Parameters
    ----------
    plan : Plan
        Plan with offers: ``search.plan(unit_seconds, price=..., spot=...)``.

    Returns
    -------
    matplotlib.figure.Figure
        A point for each number of workers on each kind of machine; a line joins those that no other point beats.

    Raises
    ------
    InvalidArgumentError
        The plan has no costs.
    """
    front = cost_front(plan.offers)
    if not front:
        raise InvalidArgumentError(
            "plan must have offers with costs, got none. Make it with search.plan(unit_seconds, price=..., spot=...)"
        )
    from udfs.driver.figure import NotebookFigure  # matplotlib, where a picture is wanted

    figure = NotebookFigure(figsize=(8, 4.5), layout="constrained")
    axes = figure.subplots()
    points: dict[str, list[tuple[float | None, float | None, int]]] = {
        "on demand": [(each.seconds, each.cost, each.workers) for each in plan.offers],
        "spot": [(each.expected_seconds, each.expected_cost, each.workers) for each in plan.offers],
    }
    for kind, values in points.items():
        known = [
            (seconds / _HOUR_S, cost, workers)
            for seconds, cost, workers in values
            if seconds is not None and cost is not None and math.isfinite(seconds)
        ]
        if not known:
            continue
        hours, costs, _ = zip(*known, strict=True)
        expected = " (expected)" if kind == "spot" else ""
        axes.plot(hours, costs, linestyle="none", marker="o", color=_COLOURS[kind], label=f"{kind}{expected}")
        for hour, cost, workers in known:
            axes.annotate(str(workers), (hour, cost), textcoords="offset points", xytext=(5, 4), fontsize=8)
    line = ([option.seconds / _HOUR_S for option in front], [option.cost for option in front])
    axes.plot(*line, color="black", linewidth=1.0, zorder=0, label="Pareto front")
    axes.set_xlabel("hours")
    axes.set_ylabel("cost")
    axes.set_ylim(bottom=0)
    axes.set_title("time and cost by number of workers")
    axes.legend(frameon=False)
    return figure
