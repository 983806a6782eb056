"""Every picture of the package is rendered: no text is crossed or covered, and no legend lies over a mark."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

pytest.importorskip("matplotlib")
from matplotlib.colors import to_hex
from overlaps import overlaps

from cerebro_spark.adaptation._figures import cycles_figure
from cerebro_spark.hopper import Event, Loss
from cerebro_spark.tune import TrialResult
from cerebro_spark.tune._colours import trial_colours
from cerebro_spark.tune._interactive import interactive_curves, interactive_gantt
from cerebro_spark.tune._pictures import gantt, learning_curves
from optimizer.occlusion import OcclusionGrid
from vista_spark import Attribution, Explanation, LayerResult, TransferResult
from vista_spark.occlusion import TensorExplanation
from vista_spark.specialization import ClassSkew
from vista_spark.transfer import memory_figure

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.figure import Figure


def layer(name: str, score: float, spread: float | None, seconds: tuple[float, float]) -> LayerResult:
    interval = None if spread is None else (score - spread, score + spread)
    return LayerResult(
        name=name, size=128, score=score, inference_seconds=seconds[0], training_seconds=seconds[1], gflops=0.2,
        model=None, inference_pass=0, interval=interval, lift_interval=None,
    )  # fmt: skip


def transfer(scores: Sequence[float], spread: float | None = 0.09, metric: str = "f1") -> TransferResult:
    """Make a result of layers with long and short names; the first score is the baseline's."""
    names = ["structured", "block6", "features.denseblock4.denselayer16.norm2", "fc", "x", "pool", "conv18", "b"]
    rows = [layer(name, score, spread, (20.0, 9.0)) for name, score in zip(names, scores, strict=False)]
    logical = SimpleNamespace(model="mobilenet_v2", stages=())
    return TransferResult(
        layers=tuple(rows[1:]), passes=(), baseline=rows[0], hog=None, best=rows[-1], best_model=None, metric=metric,
        larger_is_better=True, choice=SimpleNamespace(logical=logical), train_rows=172, test_rows=93, dropped={},
    )  # type: ignore[arg-type] # fmt: skip


def trial(number: int, values: list[float], status: str = "finished") -> TrialResult:
    history = [{"val_loss": value} for value in values]
    params = {"lr": 0.1 / (number + 1), "hidden": 16 * (number + 1)}
    return TrialResult(f"c{number:03}", params, status, values[-1], history, (), 1.0, "")  # type: ignore[arg-type]


def trials(count: int, epochs: int) -> list[TrialResult]:
    return [trial(number, [1 / (epoch + 1 + number) for epoch in range(epochs)]) for number in range(count)]


def events(count: int, workers: int = 2, units: int = 4) -> list[Event]:
    """Make units of equal length, one after the other on each worker."""
    found = []
    for worker in range(workers):
        for unit in range(units * count):
            kind = "train" if unit % 3 else "validate"
            began, trial_id = 3.0 + unit, f"c{(unit + worker) % count:03}"
            found.append(
                Event(
                    kind=kind, trial_id=trial_id, worker=f"w{worker}", epoch=0, partition=worker, began=began,
                    ended=began + 1, seconds=1.0,
                )
            )  # fmt: skip
    return found


def cycle(records: int, alone: float, passes: float, score: float) -> SimpleNamespace:
    return SimpleNamespace(records=records, passes_alone=alone, passes=passes, score=score)


def memory(executors: int = 1, *, local: bool = False, node: int = 64, **parts: float) -> Figure:
    """Draw the regions of a node in GiB, of which the heap's parts are small where they are not stated."""
    sizes = {
        **dict.fromkeys(("set_aside", "driver", "user", "core", "off_heap", "storage", "overhead"), 0.3),
        "python": 2.5,
        "dl": 1.5,
        "os": 3.0,
        **parts,
    }
    plan = SimpleNamespace(
        **{f"{name}_bytes": int(size * 2**30) for name, size in sizes.items()}, executors_per_node=executors, cores=4,
        cluster=SimpleNamespace(local=local, memory_bytes=node << 30), partitions=256, join="broadcast",
        persistence="deserialised",
    )  # fmt: skip
    return memory_figure(plan)  # type: ignore[arg-type]


def heat_map(name: str = "tabby cat", largest: float = 0.8, **facts: Any) -> Explanation:
    grid = OcclusionGrid((64, 64), (16, 16), (8, 8))
    image = np.full((64, 64, 3), 200, np.uint8)
    values = np.linspace(0.0, largest, grid.shape[0] * grid.shape[1], dtype=np.float32).reshape(grid.shape)
    usual: dict[str, Any] = {
        "score": "probability: softmax over the 10 outputs of 'fc'", "class_names": (name,) * 10,
        "top": tuple((place, 0.3 - place / 20) for place in range(5)),
    }  # fmt: skip
    return Explanation(values, grid, 1, 1, largest / 2, "exact", 2.0, 1.5, image, **usual | facts)


def series() -> TensorExplanation:
    return TensorExplanation(
        np.linspace(0, 1, 7, dtype=np.float32), OcclusionGrid((64,), (16,), (8,)), 1, 1, 0.7, "exact", 2.0, 1.5,
        np.random.default_rng(0).normal(size=(6, 64)).astype(np.float32), score="probability: softmax", top=((1, 0.7),),
        class_names=("still", "walking"),
    )  # fmt: skip


def attribution(values: np.ndarray, **facts: Any) -> Attribution:
    usual: dict[str, Any] = {"method": "shapley", "target": 281, "whole": 0.853, "score": "probability: softmax"}
    return Attribution(values=values, baseline="grey", evaluations=100, seconds=2.0, **usual | facts)


NORMAL = np.random.default_rng(0).normal
TOKENS = tuple(["the", "extraordinarily", "uncharacteristic", "##ness", ".", "[SEP]"] * 10)

PICTURES: dict[str, Any] = {
    "memory": memory,
    "memory of several executors": lambda: memory(4, node=256, storage=20, core=12, user=4),
    "memory of small executors": lambda: memory(1, node=12),
    "memory of one machine": lambda: memory(local=True, node=16, driver=1),
    "memory of a node with little of it used": lambda: memory(node=400),
    "heat map": lambda: heat_map().plot(),
    "heat map, a name for one line": lambda: heat_map("Egyptian cat", 1.4).plot(),
    "heat map, a name for two lines": lambda: heat_map("Staffordshire bullterrier").plot(),
    "heat map, a name for many lines": lambda: heat_map("German short-haired pointer, " * 5).plot(),
    "heat map, long names": lambda: heat_map("an extraordinarily long name of a class of birds of paradise").plot(),
    "heat map of a flat map": lambda: heat_map(
        "a long name that takes two lines in the title of it", largest=1e-9
    ).plot(palette="jet_r"),
    "heat map, small scores": lambda: heat_map(largest=3e-6).plot(),
    "heat map with random weights": lambda: heat_map(has_random_weights=True).plot(),
    "heat map with notes": lambda: heat_map(
        notes=("a note of the computation that is long enough to wrap",) * 4
    ).plot(),
    "heat map in the colours of Krypton": lambda: heat_map().plot(palette="jet_r"),
    "heat map of a series": lambda: series().plot(),
    "attribution of an image": lambda: attribution(
        NORMAL(size=(32, 32)), picture=np.full((32, 32, 3), 99, np.uint8), has_random_weights=True
    ).plot(),
    "attribution of a plane": lambda: attribution(1e-6 * NORMAL(size=(32, 32))).plot(),
    "attribution of a few tokens": lambda: attribution(NORMAL(size=6), labels=TOKENS[:6]).plot(),
    "attribution of many tokens": lambda: attribution(NORMAL(size=60), labels=TOKENS).plot(),
    "attribution of numbers": lambda: attribution(NORMAL(size=5)).plot(),
    "layers": lambda: transfer([0.675, 0.741, 0.816, 0.864]).plot(),
    "layers, worse than the baseline": lambda: transfer([0.9, 0.71, 0.5, 0.2]).plot(),
    "layers, r2 below zero": lambda: transfer([-0.4, -0.1, 0.2, 0.3], metric="r2").plot(),
    "layers, wide intervals": lambda: transfer([0.5] * 8, 0.5).plot(),
    "layers without intervals": lambda: transfer([0.675, 0.741], None).plot(),
    "curves": lambda: learning_curves(trials(3, 2), "val_loss"),
    "curves of one epoch": lambda: learning_curves(trials(2, 1), "val_loss"),
    "curves of many": lambda: learning_curves(trials(30, 12), "val_loss"),
    "curves that end": lambda: learning_curves([*trials(2, 4), trial(2, [math.nan], "diverged")], "val_loss"),
    "gantt": lambda: gantt(events(3)),
    "gantt of many": lambda: gantt(events(40, 4)),
    "gantt that follows one": lambda: gantt(events(3), follow="c001"),
    "gantt with a lost worker": lambda: gantt(events(3), [Loss(seconds=6.2, worker="w1", host="a", why="killed")]),
    "cycles": lambda: cycles_figure(
        [cycle(80, 1280, 80, 0.4), cycle(160, 2560, 80, 0.39), cycle(240, 3840, 80, 0.44)], "val_f1"
    ),
    "class skew": lambda: ClassSkew(
        {(size, share): {1: 3, 2 + n: 5, 7 * n + 3: 2} for size in (10, 60, 180) for n, share in enumerate((0.6, 0.9))}
    ).plot(),
    "class skew of a label": lambda: ClassSkew({(10.0, 0.9): {1: 4}}).plot(),
    "cycles that shrink": lambda: cycles_figure(
        [cycle(80, 5000, 80, 0.4), cycle(160, 2560, 80, 0.39), cycle(240, 100, math.nan, 0.44)], "val_f1"
    ),
}


@pytest.mark.parametrize("name", PICTURES)
def test_nothing_is_covered_or_crossed(name: str) -> None:
    assert overlaps(PICTURES[name]()) == []


def ticks(figure: Figure) -> list[float]:
    axes = figure.axes[0]
    figure.canvas.draw()
    return [tick for tick in axes.get_xticks() if axes.get_xlim()[0] <= tick <= axes.get_xlim()[1]]


@pytest.mark.parametrize("epochs", [1, 2, 3, 7, 50])
def test_ticks_are_whole_epochs(epochs: int) -> None:
    shown = ticks(learning_curves(trials(2, epochs), "val_loss"))
    assert shown
    assert all(tick == round(tick) for tick in shown)


@pytest.mark.parametrize("count", [3, 10, 25])
def test_a_configuration_has_one_colour_in_all_pictures(count: int) -> None:
    """By its id: neither its rank nor the configurations that never ran change it."""
    ranked = trials(count, 2)[::-1]
    wanted = trial_colours(each.trial_id for each in ranked)
    assert len(set(wanted.values())) == count
    lines = learning_curves(ranked, "val_loss").axes[0].lines
    drawn = {each.trial_id: to_hex(line.get_color()) for each, line in zip(ranked, lines, strict=True)}
    assert drawn == wanted
    ran = [event for event in events(count) if event.trial_id != "c000"]
    bars = gantt(ran, trial_ids=wanted).axes[0].patches
    seen = {(event.trial_id, to_hex(bar.get_facecolor())) for event, bar in zip(ran, bars, strict=True)}
    assert seen == {(name, colour) for name, colour in wanted.items() if name != "c000"}


def test_pictures_of_plotly_have_the_same_colours() -> None:
    pytest.importorskip("plotly")
    ranked = [trial(2, [math.nan], "diverged"), *trials(2, 2)]
    wanted = trial_colours(each.trial_id for each in ranked)
    curves = interactive_curves(ranked, "val_loss").data
    assert {curve.name: curve.line.color for curve in curves} == {
        "c000": wanted["c000"], "c001": wanted["c001"], "c002 (diverged)": wanted["c002"]
    }  # fmt: skip
    bars = interactive_gantt(events(3), trial_ids=wanted).data
    assert {(bar.name, bar.marker.color) for bar in bars} == set(wanted.items())


@pytest.mark.parametrize("status", ["diverged", "failed", "raised", "out of memory"])
def test_a_configuration_that_an_error_ended_is_marked(status: str) -> None:
    figure = learning_curves([*trials(1, 3), trial(1, [0.5, math.nan], status)], "val_loss")
    legend = figure.axes[0].get_legend()
    assert legend is not None
    assert f"({status})" in legend.get_texts()[1].get_text()
    assert [handle.get_marker() for handle in legend.get_lines()] == ["o", "x"]
    assert [line.get_marker() for line in figure.axes[0].lines] == ["o", "o", "x"]
