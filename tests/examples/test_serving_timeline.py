"""The picture of a backend's batches has a bar for each, on its own backend's row."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

import pytest
from places import EXAMPLES

if TYPE_CHECKING:
    from types import ModuleType


@pytest.fixture
def timeline(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(EXAMPLES)
    return importlib.import_module("serving_timeline")


def test_every_batch_of_the_second_is_drawn(timeline: ModuleType) -> None:
    batches = [
        timeline.Batch(20, "A", 8, 4.0, 4.075),
        timeline.Batch(20, "B", 4, 4.075, 4.125),
        timeline.Batch(10, "C", 5, 4.5, 4.57),
        timeline.Batch(10, "C", 5, 9.0, 9.07),
    ]
    (axes,) = timeline.drawn(batches, 4.0, 5.0).axes
    bars = [(bar.get_x(), round(bar.get_y() + bar.get_height() / 2), bar.get_width()) for bar in axes.patches]
    assert bars == [
        pytest.approx((0.0, 0, 0.075)),
        pytest.approx((0.075, 0, 0.05)),
        pytest.approx((0.5, 1, 0.07)),
    ], "the backend with A is the first, whatever its process id; what runs later is left out"
    assert [text.get_text() for text in axes.texts] == ["8", "4", "5"]
