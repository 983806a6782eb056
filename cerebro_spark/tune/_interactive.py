"""Interactive pictures of a run: learning curves, and a Gantt chart of its units."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from cerebro_spark.tune._colours import trial_colours
from udfs.driver.interactive import graph_objects

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import plotly.graph_objects as go

    from cerebro_spark.hopper import Event, Loss
    from cerebro_spark.tune._result import TrialResult

__all__ = ["interactive_curves", "interactive_gantt"]

# Epochs that all have a label on the axis.
_EACH_EPOCH = 15


def interactive_curves(trials: Sequence[TrialResult], metric: str) -> go.Figure:
    """Draw a metric by epoch, one line per configuration; under the pointer its params and all metrics."""
    graphs = graph_objects()
    figure = graphs.Figure()
    colours = trial_colours(trial.trial_id for trial in trials)
    for place, trial in enumerate(trials):
        ended = f" ({trial.status})" if trial.failed else ""
        params = "<br>".join(escape(f"{name} = {value}") for name, value in trial.params.items())
        figure.add_trace(
            graphs.Scatter(
                x=list(range(1, len(trial.history) + 1)),
                y=[entry.get(metric) for entry in trial.history],
                mode="lines+markers",
                name=f"{trial.trial_id}{ended}",
                line={"width": 3 if place == 0 else 1.5, "color": colours[trial.trial_id]},
                text=[
                    "<br>".join(escape(f"{name}: {value:.5g}") for name, value in entry.items())
                    for entry in trial.history
                ],
                hovertemplate=f"<b>{trial.trial_id}</b>, epoch %{{x}}<br>{params}<br><br>%{{text}}<extra></extra>",
            )
        )
    title = f"{len(trials)} configurations, the best first"
    figure.update_layout(title=title, xaxis_title="epoch", yaxis_title=metric, hovermode="closest")
    epochs = max((len(trial.history) for trial in trials), default=0)
    if epochs <= _EACH_EPOCH:  # plotly would also label parts of epochs
        figure.update_xaxes(dtick=1)
    return figure


def interactive_gantt(
    events: Sequence[Event], losses: Sequence[Loss] = (), follow: str | None = None, trial_ids: Iterable[str] = ()
) -> go.Figure:
    """Draw one row per worker and one bar per unit; a click on the legend hides a configuration.

    With ``follow``, a line joins the units of that configuration, and those of others are pale. ``trial_ids`` are those
    of all configurations of the run, which decide the colours.
    """
    graphs = graph_objects()
    figure = graphs.Figure()
    colours = trial_colours([*trial_ids, *(event.trial_id for event in events)])
    # Training and validation of a configuration are two traces of one colour.
    for trial_id in sorted({event.trial_id for event in events}):
        for trains in (True, False):
            units = [event for event in events if event.trial_id == trial_id and (event.kind == "train") == trains]
            pale = not trains or follow not in {None, trial_id}
            if not units:
                continue
            figure.add_trace(
                graphs.Bar(
                    orientation="h",
                    x=[unit.ended - unit.began for unit in units],
                    base=[unit.began for unit in units],
                    y=[unit.worker for unit in units],
                    name=trial_id,
                    legendgroup=trial_id,
                    showlegend=trains,
                    marker={"color": colours[trial_id], "line": {"color": "white", "width": 0.5}},
                    opacity=0.35 if pale else 1.0,
                    text=[f"{unit.kind}, epoch {unit.epoch + 1}, shard {unit.partition}" for unit in units],
                    textposition="none",
                    hovertemplate=f"<b>{trial_id}</b>, %{{text}}<br>%{{base:.2f}} s, for %{{x:.2f}} s<extra></extra>",
                )
            )
    path = sorted((e for e in events if e.trial_id == follow and e.kind == "train"), key=lambda event: event.began)
    if path:
        figure.add_trace(
            graphs.Scatter(
                x=[(event.began + event.ended) / 2 for event in path],
                y=[event.worker for event in path],
                mode="lines+markers",
                line={"color": "black", "width": 1},
                name=f"hops of {follow}",
                hoverinfo="skip",
            )
        )
    if losses:
        figure.add_trace(
            graphs.Scatter(
                x=[loss.seconds for loss in losses],
                y=[loss.worker for loss in losses],
                mode="markers",
                marker={"symbol": "x", "size": 14, "color": "black"},
                name="worker lost",
                text=[escape(str(loss)) for loss in losses],
                hovertemplate="%{text}<extra></extra>",
            )
        )
    workers = sorted({event.worker for event in events} | {loss.worker for loss in losses})
    title = f"units on {len(workers)} workers; pale ones are validation"
    axis = {"categoryorder": "array", "categoryarray": workers}
    figure.update_layout(title=title, barmode="overlay", xaxis_title="seconds", yaxis=axis)
    return figure
