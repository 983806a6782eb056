"""``examples/panorama.py``: phrases and classes, answers from a table of labels, and a tiny run."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from drawn_emoji import run_on_emoji
from places import EXAMPLES

pytest.importorskip("av")
pytest.importorskip("torch")

if TYPE_CHECKING:
    from pathlib import Path
    from types import ModuleType

    from pyspark.sql import DataFrame, SparkSession

NAMES = {"dog": "dog", "car": "car", "red car": "car", "blue car": "van"}


@pytest.fixture
def panorama(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(EXAMPLES)
    return importlib.import_module("panorama")


def test_the_longest_name_in_a_phrase_counts(panorama: ModuleType) -> None:
    assert panorama.match_classes("A dog near the old blue car.", NAMES) == {"dog": "dog", "old blue car": "van"}
    assert panorama.match_classes("red car", NAMES) == {"red car": "car"}


def test_other_phrases_have_the_most_similar_class(panorama: ModuleType) -> None:
    asked = []

    def similar(phrases: list[str], texts: list[str]) -> Any:
        asked.append(phrases)
        return np.array([[0.7 if text == "dog" else 0.1 for text in texts]])

    assert panorama.match_classes("a puppy in a car", NAMES, similar) == {"puppy": "dog", "car": "car"}
    assert asked == [["puppy"]], "exact words need no encoder"
    with pytest.raises(ValueError, match="must name classes, got 'puppy'"):
        panorama.match_classes("a puppy", NAMES)


def labels(spark: SparkSession) -> DataFrame:
    rows = [("door", t, "dog", 0.9, "oracle", "explore") for t in (0.0, 1.0, 2.0)]
    rows += [("door", t, "car", 0.5, "small 1", "specialized") for t in (3.0, 4.0, 5.0)]
    rows += [("street", 10.0 + t, "dog", 1.0, "small 1", "specialized") for t in (0.0, 1.0, 2.0)]
    # Two frames are too few, and the third car is of the next window.
    rows += [("street", t, "car", 1.0, "oracle", "trial") for t in (18.0, 19.0, 20.0)]
    return spark.createDataFrame(
        rows, "camera string, t double, prediction string, confidence double, model string, phase string"
    )


def test_answers_are_windows_with_all_classes(panorama: ModuleType, spark: SparkSession) -> None:
    (row,) = panorama.answer(labels(spark), ["dog", "car"]).collect()
    assert (row["camera"], row["start"], row["frames"], row["firsts"]) == ("door", 0, 6, [0.0, 3.0])
    assert row["sure"] == pytest.approx(0.9 * 0.5)
    dogs = panorama.answer(labels(spark), ["dog"]).collect()
    assert [(row["camera"], row["start"]) for row in dogs] == [("street", 10), ("door", 0)]


def test_the_cost_counts_both_models_of_a_trial(panorama: ModuleType, spark: SparkSession) -> None:
    share, speed = panorama.stream_cost(labels(spark), 1.0, 0.1, 0.01)
    assert share == 0.5
    assert speed == pytest.approx(1 / (0.5 + 0.01 * 0.5 + 0.1 * 9 / 12))


@pytest.mark.slow
def test_a_tiny_run(tmp_path: Path) -> None:
    arguments = ["--classes", "6", "--seconds", "12", "--pixels", "56", "--views", "4"]
    output = run_on_emoji("panorama.py", tmp_path, *arguments, "--query", "a red car")
    assert "red car is 'car'" in output
    assert "of 108 frames" in output
