"""Pictures of a run: learning curves, and a Gantt chart of its units."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from matplotlib.ticker import MaxNLocator

from cerebro_spark.tune._colours import describe_trial, trial_colours
from udfs.driver.figure import NotebookFigure

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from matplotlib.figure import Figure

    from cerebro_spark.hopper import Event, Loss
    from cerebro_spark.tune._result import TrialResult

__all__ = ["gantt", "learning_curves"]

# Configurations in a legend, at most.
_LABELLED = 20

# Inches of a digit of a number in a bar: a narrower bar has no number.
_DIGIT = 0.085
_GANTT_WIDTH = 10


def learning_curves(trials: Sequence[TrialResult], metric: str) -> Figure:
    """Draw a metric by epoch, one line per configuration; a cross is where an error ended one."""
    shown = trials[:_LABELLED]
    figure = _figure(9, max(4.5, 1.0 + 0.2 * len(shown)))
    axes = figure.subplots()
    colours = trial_colours(trial.trial_id for trial in trials)
    for place, trial in enumerate(trials):
        values = [entry.get(metric) for entry in trial.history]
        numbers = [math.nan if value is None else value for value in values]
        finite = [epoch for epoch, value in enumerate(numbers, 1) if math.isfinite(value)]
        axes.plot(
            range(1, len(numbers) + 1),
            numbers,
            marker="o",
            markersize=3,
            linewidth=2.0 if place == 0 else 1.0,
            color=colours[trial.trial_id],
            label=describe_trial(trial) if place < _LABELLED else None,
        )
        if trial.failed and finite:
            axes.plot(finite[-1], numbers[finite[-1] - 1], marker="x", markersize=9, color=colours[trial.trial_id])
    axes.set_xlabel("epoch")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    axes.set_ylabel(metric)
    more = "" if len(shown) == len(trials) else f"; the legend has the first {len(shown)}"
    axes.set_title(f"{len(trials)} configurations, the best first{more}")
    legend = axes.legend(fontsize=8, loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False)
    for trial, handle in zip(shown, legend.get_lines(), strict=True):
        if trial.failed:  # its line may have no point that can be drawn
            handle.set(linestyle="none", marker="x", markersize=7)
    return figure


def gantt(
    events: Sequence[Event], losses: Sequence[Loss] = (), follow: str | None = None, trial_ids: Iterable[str] = ()
) -> Figure:
    """Draw one row per worker, one bar per unit, one colour per trial; validation is pale (Cerebro, Figure A.14).

    With ``follow``, a line joins the units of that trial, and those of others are pale too. ``trial_ids`` are those of
    all trials of the run, which decide the colours.
    """
    workers = sorted({event.worker for event in events} | {loss.worker for loss in losses})
    colours = trial_colours([*trial_ids, *(event.trial_id for event in events)])
    count = len({event.trial_id for event in events})
    start = min((event.began for event in events), default=0.0)
    seconds = max((event.ended for event in events), default=0.0) - start
    figure = _figure(_GANTT_WIDTH, 1.2 + 0.5 * max(1, len(workers)))
    axes = figure.subplots()
    for event in events:
        axes.barh(
            workers.index(event.worker),
            event.ended - event.began,
            left=event.began,
            height=0.8,
            color=colours[event.trial_id],
            alpha=0.35 if event.kind != "train" or follow not in {None, event.trial_id} else 1.0,
            edgecolor="white",
            linewidth=0.4,
        )
        number = event.trial_id.lstrip("c0") or "0"
        inches = (event.ended - event.began) / (seconds or 1.0) * (_GANTT_WIDTH - 1)
        # The line of a followed trial and the cross of a lost worker would run through the numbers.
        if follow is None and inches > _DIGIT * (len(number) + 1) and not _lost_in(event, losses, seconds):
            middle = (event.began + event.ended) / 2
            axes.text(middle, workers.index(event.worker), number, ha="center", va="center", fontsize=7, clip_on=True)
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
    pale = f"the line follows {follow}, others are pale" if path else "pale bars are validation"
    axes.set_title(f"{count} configurations on {len(workers)} workers; {pale}{lost}")
    return figure


def _lost_in(event: Event, losses: Sequence[Loss], seconds: float) -> bool:
    """Return whether a worker was lost in a unit, or so close to it that its cross would cover the unit's number."""
    near = 0.02 * seconds
    return any(
        loss.worker == event.worker and event.began - near <= loss.seconds <= event.ended + near for loss in losses
    )


def _figure(width: float, height: float) -> NotebookFigure:
    return NotebookFigure(figsize=(width, height), layout="constrained")
