"""Timelines of labelled streams: counts and costs of a plain loop, and the picture."""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("torch")

from coded_models import coded_model

from vista_spark.errors import ColumnError, EmptyInputError, InvalidArgumentError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEMA = "camera string, t double, phase string, model string, prediction string, truth string"
PHASES = ["explore"] * 7 + ["train", "trial", "trial"] + ["specialized"] * 9 + ["late", None]


def rows(name: str) -> list[tuple[Any, ...]]:
    """Return frames of two streams; every third frame of the specialised phase is the oracle's, a null is bad."""
    result = []
    for camera, shift in (("north", 0.0), (None, 100.25)):
        for place, phase in enumerate(PHASES):
            model = f"{name} 1" if phase == "specialized" and place % 3 else "oracle"
            truth = [None, "a", "b"][place % 3]
            result.append((camera, shift + place / 2, phase, None if phase is None else model, "a", truth))
    return result


def test_costs_and_accuracy_are_those_of_a_loop(spark: SparkSession) -> None:
    model = coded_model().setGroupCol("camera")
    profile, oracle = model.policy.compacts[0], model.policy.seconds
    slowest = max(each.seconds for each in model.policy.compacts) / oracle
    frames = rows(profile.name)
    timeline = model.timeline(spark.createDataFrame(frames, SCHEMA).repartition(3), "truth", width=2.0)
    table = timeline.to_pandas()
    for camera in ("north", None):
        cost, right, checked, known, count = 0.0, 0, 0, False, 0
        part = table[table["stream"].isna() if camera is None else table["stream"] == camera]
        bins: dict[float, Counter[str]] = {}
        ends: dict[float, tuple[float, float]] = {}
        for _, t, phase, answered, prediction, truth in [each for each in frames if each[0] == camera]:
            if phase is None:
                continue
            count += 1
            if answered == "oracle":
                cost += 1 + slowest * (phase in ("trial", "specialized"))
            else:
                cost += (profile.seconds + (0 if known else profile.training_seconds)) / oracle
                known = True
            checked += truth is not None
            right += prediction == truth
            start = 2.0 * math.floor(t / 2.0)
            bins.setdefault(start, Counter())[phase] += 1
            ends[start] = (cost / count, right / checked if checked else math.nan)
        assert part["t"].tolist() == list(bins)
        assert part["frames"].tolist() == [sum(each.values()) for each in bins.values()]
        for (_, row), (running, accuracy), phases in zip(part.iterrows(), ends.values(), bins.values(), strict=True):
            assert row["running_cost"] == pytest.approx(running)
            assert row["accuracy"] == pytest.approx(accuracy, nan_ok=True)
            assert phases[row["phase"]] == max(phases.values())
        assert timeline.speedup == pytest.approx(count / cost)
        assert timeline.accuracy == pytest.approx(right / checked)
    assert "north: 20 frames, 35% explore" in timeline.explain()
    figure = timeline.plot()
    assert [axes.get_title() for axes in figure.axes[:2]] == ["null", "north"]


def test_a_repetition_costs_nothing(spark: SparkSession) -> None:
    frames = [(None, 0.0, "explore", "oracle", "a", None), (None, 1.0, "repeat", "oracle", "a", None)]
    timeline = coded_model().timeline(spark.createDataFrame(frames, SCHEMA))
    assert timeline.speedup == 2
    assert math.isnan(timeline.accuracy)
    assert timeline.plot().axes


def test_wrong_arguments(spark: SparkSession) -> None:
    model = coded_model()
    frames = spark.createDataFrame([(None, float(t), "explore", "oracle", "a", "a") for t in (0, 9)], SCHEMA)
    with pytest.raises(ColumnError, match="nope"):
        model.timeline(frames, "nope")
    with pytest.raises(InvalidArgumentError, match="width must be a number above 0, got 0"):
        model.timeline(frames, width=0)
    with pytest.raises(InvalidArgumentError, match=r"width must be at least 0.0009, .* got 0.0001"):
        model.timeline(frames, width=0.0001)
    with pytest.raises(EmptyInputError, match="labelled must have a frame"):
        model.timeline(frames.where("t < 0"))
    stream = spark.readStream.format("rate").load().selectExpr("*", "0 t", "'a' prediction", "'' phase", "'' model")
    with pytest.raises(InvalidArgumentError, match="labelled must be a table, got a stream"):
        model.setGroupCol("").timeline(stream)
