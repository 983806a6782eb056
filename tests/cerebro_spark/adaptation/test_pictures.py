"""The picture of a campaign says how many records passed the frozen layers."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("torch")
from campaigns import campaign

from cerebro_spark.adaptation import CycleResult, cycles_figure
from cerebro_spark.errors import NoModelError

if TYPE_CHECKING:
    from pathlib import Path


def _line(number: int, passes: float, score: float = 0.5) -> CycleResult:
    return CycleResult(
        run=f"c-{number:04d}",
        records=60 * (number + 1),
        best="c000",
        score=score,
        seconds=1.0,
        materialising_seconds=0.5,
        trunk_rows=60,
        passes=passes,
        passes_alone=480 * (number + 1),
    )


def test_passes_beside_what_each_alone_would_have_passed() -> None:
    figure = cycles_figure([_line(0, 60.0, 0.25), _line(1, 100.5), _line(2, math.nan)], "entity_f1")
    passes, scores = figure.axes
    alone, here = ([bar.get_height() for bar in bars] for bars in passes.containers)
    assert alone == [480, 960, 1440]
    assert here[:2] == [60.0, 100.5]
    texts = [text.get_text() for text in passes.texts]
    assert texts == ["480", "960", "1,440", "60", "100", ""], "a run that was over has no number"
    assert [label.get_text() for label in passes.get_xticklabels()] == ["60", "120", "180"]
    (line,) = scores.lines
    assert line.get_xydata().tolist() == [[60, 0.25], [120, 0.5], [180, 0.5]]
    assert "entity_f1" in scores.get_title()


def test_no_cycle_is_no_picture(tmp_path: Path) -> None:
    absent: Any = None
    with pytest.raises(NoModelError, match=r"plot needs a cycle in this process: call fit\(batch\)"):
        campaign(absent, tmp_path).plot()
