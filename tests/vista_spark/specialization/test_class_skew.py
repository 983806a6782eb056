"""``class_skew`` against a plain loop over the rows, in any order, with nulls, groups and timestamps."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from pyspark.sql import functions as F

from vista_spark.errors import ColumnError, EmptyInputError, InvalidArgumentError
from vista_spark.specialization import ClassSkew, class_skew

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.connect

SHARES = ("0.6", "0.7", "0.8", "0.9")
Row = tuple[str | None, float | None, str | None]


def reference(rows: Sequence[Row], windows: Sequence[float]) -> dict[tuple[float, float], dict[int, int]]:
    """Count with a loop and exact fractions."""
    windows_by_labels: dict[tuple[float, float], dict[int, int]] = {
        (window, float(share)): Counter() for window in windows for share in SHARES
    }
    for window in windows:
        parts: dict[Any, list[tuple[float, str]]] = defaultdict(list)
        for label, time, group in rows:
            if label is not None and time is not None and math.isfinite(time):
                parts[group, math.floor(time / window)].append((time, label))
        for part in parts.values():
            times = [time for time, _ in part]
            if max(times) - min(times) < window / 2:
                continue
            for share in SHARES:
                counted, labels = 0, 0
                for _, count in Counter(label for _, label in part).most_common():
                    counted, labels = counted + count, labels + 1
                    if counted >= Fraction(share) * len(part):
                        break
                windows_by_labels[window, float(share)][labels] += 1
    return {key: dict(value) for key, value in windows_by_labels.items()}


def drawn(seed: int, count: int = 900) -> list[Row]:
    draw = np.random.default_rng(seed)
    rows: list[Row] = []
    for number in range(count):
        label = None if draw.random() < 0.05 else f"c{int(draw.exponential(3))}"
        time = None if draw.random() < 0.02 else number / 6 + (40 if number > count / 2 else 0)
        rows.append((label, time, [None, "north", "south"][int(draw.integers(3))]))
    rows += [("c0", math.nan, "north"), ("c1", math.inf, "south")]
    draw.shuffle(rows)
    return rows


def frame(spark: SparkSession, rows: Sequence[Row]) -> DataFrame:
    return spark.createDataFrame(rows, "label string, t double, camera string")


def test_counts_are_those_of_a_loop(spark: SparkSession) -> None:
    rows = drawn(0)
    skew = class_skew(frame(spark, rows), groupCol="camera", windows=(10, 2.5, 60))
    assert skew.counts == reference(rows, [2.5, 10, 60])
    assert sum(skew.left_out.values()) > 0


def test_without_groups_there_is_one_stream(spark: SparkSession) -> None:
    rows = drawn(1, 400)
    assert class_skew(frame(spark, rows), windows=[10]).counts == reference([(*row[:2], "") for row in rows], [10])


def test_shares_are_reached_exactly(spark: SparkSession) -> None:
    """7 of 10 rows are 70 %; as floats, 0.7 times 10 or the sum of tenths may be above."""
    labels = "aaaaaaabbc"
    rows = [(label, float(place), "") for place, label in enumerate(labels)]
    skew = class_skew(frame(spark, rows), windows=[10], shares=[0.7, 0.9, 0.91, 1])
    assert {share: counts for (_, share), counts in skew.counts.items()} == {
        0.7: {1: 1},
        0.9: {2: 1},
        0.91: {3: 1},
        1.0: {3: 1},
    }


def test_timestamps_are_seconds(spark: SparkSession) -> None:
    begun = datetime(2026, 3, 1, 12, tzinfo=UTC)
    rows = [(label, time, group) for label, time, group in drawn(2, 400) if time is not None and math.isfinite(time)]
    times = [(label, begun + timedelta(seconds=time), group) for label, time, group in rows]
    stamped = spark.createDataFrame(times, "label string, t timestamp, camera string")
    wanted = reference(rows, [10, 60])  # noon is a multiple of both
    assert class_skew(stamped, groupCol="camera", windows=(10, 60)).counts == wanted


def test_wall_clock_times_have_no_daylight_saving(spark: SparkSession) -> None:
    """Three hours, of which one did not exist in Berlin on this day."""
    zone = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
    try:
        rows = spark.sql(
            "SELECT * FROM VALUES ('a', TIMESTAMP_NTZ'2026-03-29 00:30:00'), ('b', TIMESTAMP_NTZ'2026-03-29 03:00:00')"
            " AS rows(label, t)"
        )
        assert class_skew(rows, windows=[4 * 3600], shares=[0.6]).counts == {(4 * 3600, 0.6): {2: 1}}
    finally:
        spark.conf.set("spark.sql.session.timeZone", str(zone))


def test_labels_may_be_numbers(spark: SparkSession) -> None:
    rows = [(1.0, 0.0), (math.nan, 1.0), (2.0, 6.0), (math.nan, 7.0), (1.0, 9.0)]
    skew = class_skew(spark.createDataFrame(rows, "label double, t double"), windows=[10], shares=[0.6, 0.9])
    assert skew.counts == {(10, 0.6): {1: 1}, (10, 0.9): {2: 1}}


def test_a_column_may_have_any_name(spark: SparkSession) -> None:
    rows = [("a", 0, "x"), ("b", 9, "x")]
    skew = class_skew(
        spark.createDataFrame(rows, "`the.label` string, `a.t` int, stream string"),
        labelCol="the.label", orderCol="a.t", groupCol="stream", windows=[10], shares=[0.6],
    )  # fmt: skip
    assert skew.counts == {(10, 0.6): {2: 1}}


def test_a_short_stream_has_no_window(spark: SparkSession) -> None:
    skew = class_skew(frame(spark, [("a", 0.0, ""), ("b", 6.0, "")]), windows=[10, 180])
    assert skew.windows(180) == 0
    assert skew.left_out == {180: 1}
    assert math.isnan(skew.fraction(180, 0.6, 1))
    assert skew.labels(180, 0.6) is None
    assert "windows of 3 min: 0, 1 left out" in skew.explain()
    assert set(skew.to_pandas().window) == {10}
    assert len(skew.plot().axes) == 2


def test_input_without_labels_is_refused(spark: SparkSession) -> None:
    for rows in ([], [(None, 1.0, "")], [("a", None, "")]):
        with pytest.raises(EmptyInputError, match="no row with a label in 'label' and a time in 't'"):
            class_skew(frame(spark, rows))


def test_arguments_are_checked_before_a_job(spark: SparkSession, tmp_path: Path) -> None:
    rows = frame(spark, [("a", 1.0, "")])
    with pytest.raises(ColumnError, match="no column 'labl'"):
        class_skew(rows, labelCol="labl")
    with pytest.raises(ColumnError, match="column 'camera' must be a number or a timestamp, got string"):
        class_skew(rows, orderCol="camera")
    with pytest.raises(InvalidArgumentError, match=r"windows\[1\] must be a number above 0, got 0"):
        class_skew(rows, windows=(10, 0))
    with pytest.raises(InvalidArgumentError, match=r"shares\[0\] must be a number above 0 and at most 1, got 60"):
        class_skew(rows, shares=(60,))
    with pytest.raises(InvalidArgumentError, match="at least one number"):
        class_skew(rows, windows=())
    stream = spark.readStream.schema("label string, t double").parquet(str(tmp_path))
    with pytest.raises(InvalidArgumentError, match="labelled must be a table, got a stream"):
        class_skew(stream)


def test_rows_are_read_once(spark: SparkSession, tmp_path: Path) -> None:
    """Labels may come from a model, which answers each row once for all windows and shares."""
    answers = tmp_path / "answers"
    answers.mkdir()

    def answer(numbers: Any) -> Any:
        for part in numbers:
            for number in part["id"]:
                with (answers / str(number)).open("a") as file:
                    file.write("x")
            yield part.assign(label=part["id"] % 3, t=part["id"].astype(float))

    labelled = spark.range(40, numPartitions=2).mapInPandas(answer, "id long, label long, t double")
    class_skew(labelled.where(F.col("t") >= 0), windows=(10, 20))
    assert {path.read_text() for path in answers.iterdir()} == {"x"}
    assert len(list(answers.iterdir())) == 40


def test_distributions_are_cumulative() -> None:
    skew = ClassSkew({(10.0, 0.6): {1: 6, 2: 2, 5: 2}, (10.0, 0.9): {3: 10}})
    assert skew.to_pandas().to_dict("list") == {
        "window": [10.0] * 4,
        "share": [0.6, 0.6, 0.6, 0.9],
        "labels": [1, 2, 5, 3],
        "fraction": [0.6, 0.8, 1.0, 1.0],
    }
    assert (skew.fraction(10, 0.6, 0), skew.fraction(10, 0.6, 4), skew.labels(10, 0.6)) == (0, 0.8, 5)
    assert "labels for 60% of the rows: 1 in half of the windows, 5 in 90 %" in skew.explain()
    with pytest.raises(InvalidArgumentError, match=r"a measured pair, \(10, 0.6\), \(10, 0.9\), got \(10, 0.5\)"):
        skew.fraction(10, 0.5, 1)
    with pytest.raises(InvalidArgumentError, match=r"window must be a measured length, 10, got 20"):
        skew.windows(20)
    steps = skew.plot().axes[0].lines[0]
    assert steps.get_drawstyle() == "steps-post"
    assert list(map(tuple, steps.get_xydata())) == [(0, 0), (1, 0.6), (2, 0.8), (5, 1), (6, 1)]
