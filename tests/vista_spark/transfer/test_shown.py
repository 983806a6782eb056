"""What a notebook shows of a transfer: the verdict, a row for each set of features, the plan."""

from __future__ import annotations

import math
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from vista_spark import InferencePass, LayerResult, TransferResult


def result(**changes: Any) -> TransferResult:
    model: Any = None
    baseline = LayerResult("structured", 0, 0.5, 0.0, 1.0, 0.0, model)
    layers = (
        LayerResult("low<1>", 64, math.nan, 2.0, 1.0, 0.1, model, 0),
        LayerResult("pool", 1280, 0.87654321, 3.0, 1.0, 0.3, model, 0),
    )
    choice: Any = SimpleNamespace(explain=lambda: "staged plan\n  a < b", logical=SimpleNamespace(model="mobilenet_v2"))
    facts: dict[str, Any] = {
        "layers": layers,
        "passes": (InferencePass(("low<1>", "pool"), 5.0, 0.4),),
        "baseline": baseline,
        "hog": None,
        "best": layers[1],
        "best_model": model,
        "metric": "f1",
        "larger_is_better": True,
        "choice": choice,
        "train_rows": 10,
        "test_rows": 5,
        "dropped": {},
    }
    return TransferResult(**facts | changes)


def test_a_transfer_shows_its_verdict_and_a_row_for_each_set() -> None:
    shown = result()._repr_html_()
    assert "pool is best: f1 0.8765" in shown
    assert "<td>structured + pool</td><td>1280</td><td>0.8765</td><td>0.3765</td><td>1</td>" in shown
    assert "<td>structured only</td><td>0</td><td>0.5</td><td>0</td><td></td>" in shown, "a baseline has no pass"
    assert "structured + low&lt;1&gt;</td><td>64</td><td></td>" in shown, "a score that is not a number is empty"
    assert "<details><summary>plan</summary>" in shown
    assert "a &lt; b" in shown


def test_random_weights_are_said() -> None:
    assert "The weights of mobilenet_v2 are random" in result(random_weights=True)._repr_html_()


def test_plotly_draws_a_bar_for_each_set_the_best_in_another_colour() -> None:
    pytest.importorskip("plotly")
    found = result()
    (bar,) = found.interactive().data
    assert list(bar.y) == list(found.to_pandas()["features"])
    assert bar.x[list(bar.y).index("structured + pool")] == 0.87654321
    (best,) = {color for color, name in zip(bar.marker.color, bar.y, strict=True) if name == "structured + pool"}
    assert list(bar.marker.color).count(best) == 1


def test_without_plotly_it_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "plotly.graph_objects", None)
    with pytest.raises(ImportError, match=r"pip install 'cerebro-spark\[plot\]'"):
        result().interactive()
