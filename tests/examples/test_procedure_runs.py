"""The picture of procedures' runs marks what happened, where it happened."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

import pytest
from matplotlib.text import Annotation
from places import EXAMPLES

from cerebro_spark import TrialResult
from cerebro_spark.hopper import Event
from optimizer.procedures import Source

if TYPE_CHECKING:
    from types import ModuleType

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Configuration, epoch, seconds at which it began and ended: c000 waits at its rung while c001 trains.
UNITS = [("c000", 0, 0, 1), ("c001", 0, 1, 2), ("c000", 1, 2, 3), ("c002", 0, 3, 4)]


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(EXAMPLES)
    return importlib.import_module("procedure_runs")


def drawn(runs: ModuleType, name: str, source: Source | None, reason: str) -> Figure:
    def trial(trial_id: str, epochs: int, why: str, origin: Source | None = None) -> TrialResult:
        history = [{"val_accuracy": 0.8}] * epochs
        return TrialResult(trial_id, {}, "finished", 0.8, history, (), 1.0, "", reason=why, epoch=epochs, source=origin)

    trials = (
        trial("c002", 1, "finished its 1 epochs", source),
        trial("c000", 2, "finished its 2 epochs"),
        trial("c001", 1, "rung 0: place 2 of 2, 1 go on"),
    )
    unit = {"kind": "train", "worker": "w0", "partition": 0, "seconds": 1.0}
    events = tuple(
        Event(trial_id=name, epoch=epoch, began=began, ended=ended, **unit) for name, epoch, began, ended in UNITS
    )
    decisions = [
        {"decision": "start", "trial_id": "c000", "epochs": 1, "reason": ""},
        {"decision": "start", "trial_id": "c001", "epochs": 1, "reason": ""},
        {"decision": "pause", "trial_id": "c000", "epochs": None, "reason": "rung 0: waits for 1 others"},
        {"decision": "continue", "trial_id": "c000", "epochs": 1, "reason": "rung 0: place 1 of 3, promoted"},
        {"decision": "start", "trial_id": "c002", "epochs": 1, "reason": reason},
    ]
    figure: Figure = runs.draw({name: runs.Course(trials, events, decisions)})
    return figure


def marks(axes: Axes, marker: str) -> list[tuple[float, float]]:
    lines = [line for line in axes.lines if line.get_marker() == marker]
    return [(float(line.get_xdata()[0]), float(line.get_ydata()[0])) for line in lines]


def test_marks_lie_where_a_configuration_was_promoted_stopped_and_best(runs: ModuleType) -> None:
    panel, legend = drawn(runs, "halving", None, "").axes[:2]
    assert marks(panel, "^") == [(2, 0)]
    assert marks(panel, "x") == [(2, 1)]
    assert marks(panel, "*") == [(4, 2)]
    assert len(panel.patches) == len(UNITS)
    assert legend.get_legend() is not None


@pytest.mark.parametrize(
    ("source", "reason", "origin"),
    [(Source("c000", 1), "clone of c000", (1, 0)), (None, "mutation of c001", (2, 1))],
    ids=["clone", "mutation"],
)
def test_an_arrow_leads_from_the_epoch_that_was_cloned(
    runs: ModuleType, source: Source | None, reason: str, origin: tuple[int, int]
) -> None:
    panel = drawn(runs, "pbt", source, reason).axes[0]
    (arrow,) = [text for text in panel.texts if isinstance(text, Annotation)]
    assert arrow.xy == (3, 2)
    assert tuple(arrow.xyann) == origin
