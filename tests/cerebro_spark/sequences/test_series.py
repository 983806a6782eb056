"""Series on real Spark: shards, splits, searches over windows and predictions, against plain loops over pandas."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest

torch = pytest.importorskip("torch")

from pyspark import cloudpickle
from pyspark.sql import functions as F

from cerebro_spark import (
    EnsembleModel,
    GridSearch,
    ModelTrainer,
    Series,
    SparkBackend,
    Store,
    TunedModel,
    Windows,
    prepare,
)
from cerebro_spark.errors import ColumnError, InvalidArgumentError
from udfs.shards import PreparedData, load_prepared, load_shard

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from cerebro_spark import Selection

cloudpickle.register_pickle_by_value(sys.modules[__name__])

SUBJECTS = {"ann": 30, "bob": 12, "cid": 25, "dan": 18, "eve": 9}


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    """Rows in random order; bob's fifth row has no x."""
    random = np.random.default_rng(0)
    parts = []
    for name, count in SUBJECTS.items():
        label = (np.arange(count) // 6) % 2
        x = np.where(label, 1.0, -1.0) + 0.1 * random.normal(size=count)
        time = pd.Timestamp("2026-01-01") + pd.to_timedelta(np.arange(count) / 10, unit="s")
        parts.append(pd.DataFrame({"name": name, "time": time, "x": x, "z": random.normal(size=count), "y": label}))
    rows = pd.concat(parts, ignore_index=True)
    rows.loc[(rows["name"] == "bob") & (rows["time"] == pd.Timestamp("2026-01-01 00:00:00.5")), "x"] = None
    return rows.sample(frac=1, random_state=0).reset_index(drop=True)


@pytest.fixture(scope="module")
def df(spark: SparkSession, table: pd.DataFrame) -> DataFrame:
    return spark.createDataFrame(table).repartition(3)


def prepared_as(df: DataFrame, path: Path, series: Series | None, **settings: Any) -> PreparedData:
    store = Store.from_uri(str(path / "store"))
    usual: dict[str, Any] = {"feature_columns": ["x", "z"], "label_columns": ["y"], "num_shards": 2, "seed": 3}
    return prepare(df, store, series=series, **usual | settings)


def stored(prepared: PreparedData, split: str) -> list[tuple[int, np.ndarray]]:
    """Return the shard and the rows (x, z, y) of each series of a split."""
    series = []
    for partition in prepared.partitions:
        shard = load_shard(prepared, split, partition)
        rows = np.column_stack([shard.inputs[0], shard.labels[0]])
        assert shard.offsets is not None
        series += [(partition, part) for part in np.split(rows, shard.offsets[1:-1]) if len(part)]
    return series


def parts(table: pd.DataFrame) -> dict[tuple[str, int], np.ndarray]:
    """Cut the rows of each subject, in time order, at rows without x."""
    cut = {}
    for name, rows in table.sort_values("time").groupby("name"):
        begin, number = 0, 0
        values = rows[["x", "z", "y"]].to_numpy(np.float32)
        for place in [*np.flatnonzero(np.isnan(values[:, 0])), len(values)]:
            cut[str(name), number] = values[begin:place]
            begin, number = place + 1, number + 1
    return cut


def test_a_subject_is_in_one_shard_and_one_split_in_time_order(
    df: DataFrame, table: pd.DataFrame, tmp_path: Path
) -> None:
    prepared = prepared_as(df, tmp_path, Series(["name"], "time"), test_fraction=0.3)
    truth = parts(table)
    places: dict[str, set[tuple[str, int]]] = {}
    for split in ("train", "validation"):
        for shard, rows in stored(prepared, split):
            (key,) = [key for key, values in truth.items() if np.array_equal(values, rows)]
            del truth[key]
            places.setdefault(key[0], set()).add((split, shard))
    assert not truth, "a series is missing, or not in time order"
    assert all(len(place) == 1 for place in places.values()), places
    assert {split for place in places.values() for split, _ in place} == {"train", "validation"}
    loaded = load_prepared(prepared.store, prepared.name)
    assert loaded == prepared
    assert loaded.series == Series(["name"], "time")


def test_a_split_by_time_leaves_an_embargo(df: DataFrame, table: pd.DataFrame, tmp_path: Path) -> None:
    whole = df.where("name != 'bob'")
    series = Series(["name"], "time", split="time", embargo=4)
    prepared = prepared_as(whole, tmp_path, series, test_fraction=0.25)
    rows = {split: [part for _, part in stored(prepared, split)] for split in ("train", "validation")}
    for name, count in SUBJECTS.items():
        if name == "bob":
            continue
        values = parts(table)[name, 0]
        held = round(count * 0.25)
        for split, expected in (("train", values[: count - held - 4]), ("validation", values[count - held :])):
            assert any(np.array_equal(expected, part) for part in rows[split]) or not len(expected), (name, split)
    prepared.viewed(Windows(4))
    with pytest.raises(InvalidArgumentError, match=r"windows must not be longer than the embargo .* 4 rows, got 5"):
        prepared.viewed(Windows(5))
    with pytest.raises(InvalidArgumentError, match="windows must not be longer than the longest series"):
        prepared_as(whole, tmp_path, Series(["name"], "time")).viewed(Windows(31))
    with pytest.raises(InvalidArgumentError, match="were shuffled and split at random"):
        prepared_as(whole, tmp_path, None).viewed(Windows(2))


@pytest.mark.parametrize(
    ("change", "series", "message"),
    [
        ("y as y", Series(["x"], "time"), "must be columns of integers, strings, booleans or dates, got 'x' of double"),
        ("y as y", Series(["name"], "name"), "order_by must be columns of numbers, dates or timestamps, got 'name'"),
        ("y as y", Series(["nam"], "time"), "series_by and subject_by must be of the columns .*, got 'nam'; did you"),
        ("y as y", Series(["y"], "time"), "order_by must have each time once in a series, got"),
        ("nullif(name, 'eve') as name", Series(["name"], "time"), "must have a value in every row, got 9 rows"),
        ("y as y", Series(["name"], "time", subject_by=["y"]), "series_by must identify series of a single subject"),
    ],
)
def test_bad_series(df: DataFrame, tmp_path: Path, change: str, series: Series, message: str) -> None:
    name = change.split(" as ")[1]
    others = [column for column in df.columns if column != name]
    with pytest.raises(ColumnError, match=message):
        prepared_as(df.selectExpr(*others, change), tmp_path, series)


def test_a_subject_in_two_splits(df: DataFrame, tmp_path: Path) -> None:
    days = df.selectExpr("*", "y as day", "y = 1 as held_out").where("x is not null")
    series = Series(["name", "day"], "time", subject_by=["name"], validation_column="held_out")
    with pytest.raises(ColumnError, match="validation_column must have one value for a subject, got both"):
        prepared_as(days, tmp_path, series)
    chosen = days.selectExpr("*", "name = 'cid' as mine")
    series = Series(["name"], "time", validation_column="mine")
    assert prepared_as(chosen, tmp_path, series).rows("validation") == SUBJECTS["cid"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"series_by": "name", "order_by": "t"}, "series_by must be a list of columns, got 'name'"),
        ({"series_by": ["name"], "order_by": "t", "split": "random"}, "a random split has the same rows in training"),
        ({"series_by": ["name"], "order_by": "t", "split": "time"}, "embargo must be a whole number of at least 1"),
        ({"series_by": ["name"], "order_by": "t", "embargo": 3}, 'embargo must be None with split="subject"'),
        ({"series_by": ["name"], "order_by": "t", "max_gap": 0}, "max_gap must be a number above 0, got 0"),
    ],
)
def test_wrong_arguments(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        Series(**arguments)


def trainer(params: dict[str, Any]) -> ModelTrainer:
    view = Windows(params["length"], stride=2, downsample=2, label="middle")
    net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(2 * view.steps, 2))
    return ModelTrainer(
        model=net,
        optimizer=torch.optim.Adam(net.parameters(), lr=0.1),
        loss=torch.nn.CrossEntropyLoss(),
        metrics=["accuracy"],
        batch_size=4,
        view=view,
    )


@pytest.fixture(scope="module")
def selection(spark: SparkSession, df: DataFrame, tmp_path_factory: pytest.TempPathFactory) -> Selection:
    return GridSearch(
        backend=SparkBackend(spark, num_workers=2, threads=1),
        store=Store.from_uri(str(tmp_path_factory.mktemp("store"))),
        trainer_fn=trainer,
        search_space={"length": [4, 8]},
        num_epochs=8,
        feature_columns=["x", "z"],
        label_columns=["y"],
        series=Series(["name"], "time"),
        metric="accuracy",
        progress=False,
        test_fraction=0.5,
        seed=3,
    ).fit(df)


def test_windows_are_hyperparameters_and_the_model_predicts_for_them(
    selection: Selection, df: DataFrame, table: pd.DataFrame, tmp_path: Path
) -> None:
    assert {trial.status for trial in selection.trials} == {"finished"}, selection.trials[0].traceback
    selection.model("c001").save(str(tmp_path / "model"))
    model = TunedModel.load(str(tmp_path / "model"))
    assert model.windows == Windows(8, 2, downsample=2, label="middle")
    found = model.transform(df).toPandas().sort_values(["name", "window_start"])
    assert list(found.columns[:4]) == ["name", "window_start", "window_end", "y"]

    network = selection.model("c001").network.open()
    expected = []
    for (name, _), values in sorted(parts(table).items()):
        for start in range(0, len(values) - 7, 2):
            window = values[start : start + 8]
            (outputs, *_) = network([window[:, :2].reshape(4, 2, 2).mean(axis=1)[None]])
            expected.append((name, float(window[4, 2]), float(outputs[0].argmax())))
    assert list(found[["name", "y", "prediction"]].itertuples(index=False, name=None)) == expected
    assert sum(y == prediction for _, y, prediction in expected) > 0.6 * len(expected)
    for label, kind in (("cast(16777217 + y AS bigint)", int), ("if(y = 1, 'up', 'down')", str)):
        named = model.transform(df.withColumn("y", F.expr(label))).toPandas().sort_values(["name", "window_start"])
        values = {0.0: 16777217, 1.0: 16777218} if kind is int else {0.0: "down", 1.0: "up"}
        assert named["y"].tolist() == [values[y] for _, y, _ in expected]
    unknown = model.transform(df.withColumn("y", F.expr("if(name = 'ann', null, y)"))).toPandas()
    assert unknown["y"].isna().tolist() == (unknown["name"] == "ann").tolist()
    with pytest.raises(ColumnError, match="label must be a column of numbers, strings or booleans, got 'y' of date"):
        model.transform(df.withColumn("y", F.current_date()))
    with pytest.raises(InvalidArgumentError, match="sql_model must be called on a model of single rows"):
        model.sql_model()


def test_networks_of_different_windows_vote(
    selection: Selection, df: DataFrame, table: pd.DataFrame, tmp_path: Path
) -> None:
    ensemble = selection.ensemble(2, vote="mean", replace=False)
    assert set(ensemble.members["trial_id"]) == {"c000", "c001"}
    ensemble.save(str(tmp_path / "ensemble"))
    predicted = EnsembleModel.load(str(tmp_path / "ensemble")).transform(df).toPandas()
    predicted = predicted.sort_values(["name", "window_start"])

    long, short = (selection.model(name).network.open() for name in ("c001", "c000"))
    expected = []
    for (name, _), values in sorted(parts(table).items()):
        for start in range(0, len(values) - 7, 2):
            window = values[start : start + 8]
            chances = []
            for network, rows in ((long, window), (short, window[2:6])):
                (outputs, *_) = network([rows[:, :2].reshape(-1, 2, 2).mean(axis=1)[None]])
                chances.append(np.exp(outputs[0]) / np.exp(outputs[0]).sum())
            expected.append((name, window[4, 2], *np.mean(chances, axis=0)))
    assert predicted["name"].tolist() == [row[0] for row in expected]
    assert predicted["y"].tolist() == [row[1] for row in expected]
    np.testing.assert_allclose(np.stack(predicted["probability"]), [row[2:] for row in expected], rtol=1e-5)
    assert "x" not in predicted.columns
