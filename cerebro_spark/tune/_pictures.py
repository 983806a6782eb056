"""Pictures of a run: learning curves, and a Gantt chart of its units."""

from __future__ import annotations

from typing import TYPE_CHECKING

from udfs.driver.figure import NotebookFigure

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.figure import Figure

    from cerebro_spark.hopper import Event, Loss
    from cerebro_spark.tune._result import TrialResult

__all__ = ["gantt", "learning_curves"]

_LABELLED = 20

# Share of the picture's width: a narrower bar has no room for its number.
_READABLE = 0.012


def learning_curves(trials: Sequence[TrialResult], metric: str) -> Figure:
    """Draw a metric by epoch, one line per configuration."""
    figure = _figure(8, 4.5)
    axes = figure.subplots()
    for place, trial in enumerate(trials):
        values = [entry.get(metric, float("nan")) for entry in trial.history]
        params = ", ".join(f"{name}={value}" for name, value in trial.params.items())
        axes.plot(
            range(1, len(values) + 1),
            values,
            marker="o",
            markersize=3,
            linewidth=2.0 if place == 0 else 1.0,
            label=f"{trial.trial_id}: {params}" if place < _LABELLED else None,
        )
    axes.set_xlabel("epoch")
    axes.set_ylabel(metric)
    axes.set_title(f"{len(trials)} configurations, the best first")
    axes.legend(fontsize=6, loc="center left", bbox_to_anchor=(1.0, 0.5))
    return figure


def gantt(events: Sequence[Event], losses: Sequence[Loss] = (), follow: str | None = None) -> Figure:
    """Draw one row per worker, one bar per unit, one colour per trial; validation is pale (Cerebro, Figure A.14).

    With ``follow``, a line joins the units of that trial, and those of others are pale too.
    """
    workers = sorted({event.worker for event in events} | {loss.worker for loss in losses})
    trial_ids = sorted({event.trial_id for event in events})
    end = max((event.ended for event in events), default=0.0)
    figure = _figure(10, 1.2 + 0.5 * max(1, len(workers)))
    axes = figure.subplots()
    for event in events:
        place = trial_ids.index(event.trial_id)
        colour = f"C{place % 10}" if len(trial_ids) <= 10 else _shade(place, len(trial_ids))  # matplotlib's cycle
        axes.barh(
            workers.index(event.worker),
            event.ended - event.began,
            left=event.began,
            height=0.8,
            color=colour,
            alpha=0.35 if event.kind != "train" or follow not in {None, event.trial_id} else 1.0,
            edgecolor="white",
            linewidth=0.4,
        )
        if event.ended - event.began > _READABLE * end:
            axes.text(
                (event.began + event.ended) / 2,
                workers.index(event.worker),
                event.trial_id.lstrip("c0") or "0",
                ha="center",
                va="center",
                fontsize=5,
                clip_on=True,
            )
    path = [event for event in events if event.trial_id == follow and event.kind == "train"]
    if path:
        middles = [(event.began + event.ended) / 2 for event in path]
        rows = [workers.index(event.worker) for event in path]
        axes.plot(middles, rows, color="black", linewidth=1.0, marker="o", markersize=2.5)
    for loss in losses:
        axes.plot(loss.seconds, workers.index(loss.worker), marker="x", markersize=14, markeredgewidth=3, color="black")
    axes.set_yticks(range(len(workers)), workers)
    axes.set_xlabel("seconds")
    lost = "; a cross is where a worker was lost" if losses else ""
    axes.set_title(f"{len(trial_ids)} configurations on {len(workers)} workers; pale bars are validation{lost}")
    return figure


def _shade(place: int, count: int) -> tuple[float, float, float, float]:
    from matplotlib import colormaps  # beside its only use

    shade: tuple[float, float, float, float] = colormaps["turbo"](0.05 + 0.9 * place / max(1, count - 1))
    return shade


def _figure(width: float, height: float) -> NotebookFigure:
    return NotebookFigure(figsize=(width, height), layout="constrained")
