from __future__ import annotations

import sys
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest
import torch
from pyspark import cloudpickle

from cerebro_spark import GroupedModel, GroupedSearch, ModelTrainer, SparkBackend, Store
from cerebro_spark.errors import ColumnError, InvalidArgumentError, RunError
from udfs.grouping import load_grouped, read_groups

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

cloudpickle.register_pickle_by_value(sys.modules[__name__])


def trainer(params: dict[str, Any]) -> ModelTrainer:
    net = torch.nn.Sequential(torch.nn.Linear(2, 4), torch.nn.Tanh(), torch.nn.Linear(4, 2))
    optimizer = torch.optim.SGD(net.parameters(), lr=params["lr"])
    return ModelTrainer(
        model=net, optimizer=optimizer, loss=torch.nn.CrossEntropyLoss(), metrics=["accuracy"], batch_size=8
    )


def table() -> pd.DataFrame:
    """Rows of groups whose labels depend on the group, and of groups that cannot be trained."""
    draw = np.random.default_rng(3)
    rows = []
    for state, city, count in [
        ("CA", "LA", 40),
        ("CA", "SF", 24),
        ("NY", "NY", 40),
        ("NY", "Troy", 3),
        ("TX", None, 9),
    ]:
        for _ in range(count):
            x = draw.normal(size=2)
            label = int((x[0] > 0) == (state == "CA"))
            rows.append((state, city, *x, label))
    rows += [("NV", "Reno", *draw.normal(size=2), 1) for _ in range(12)]
    rows += [("NV", "Elko", None, 0.0, number % 2) for number in range(6)]
    return pd.DataFrame(rows, columns=["state", "city", "a", "b", "label"])


def search(spark: SparkSession, store: Store, **settings: Any) -> GroupedSearch:
    defaults: dict[str, Any] = {
        "group_by": ["state", "city"],
        "search_space": {"lr": [0.5, 0.0]},
        "num_epochs": 2,
        "feature_columns": ["a", "b"],
        "label_columns": ["label"],
        "min_rows": 5,
    }
    backend = SparkBackend(spark, num_workers=2)
    return GroupedSearch(backend=backend, store=store, trainer_fn=trainer, **(defaults | settings))


@pytest.fixture(scope="module")
def fitted(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> tuple[GroupedSearch, GroupedModel]:
    made = search(spark, Store.from_uri(str(tmp_path_factory.mktemp("store"))))
    return made, made.fit(spark.createDataFrame(table()), run_id="first")


def test_a_row_with_a_reason_for_each_group(fitted: tuple[GroupedSearch, GroupedModel]) -> None:
    rows = fitted[1].groups.collect()
    groups = {(row["state"], row["city"]): row for row in rows}
    assert len(groups) == len(rows)
    assert Counter(row["level"] for row in rows) == {0: 1, 1: 4, 2: 6}
    reasons = {key: row["reason"] for key, row in groups.items()}
    assert reasons.pop(("NY", "Troy")) == "3 rows, fewer than min_rows=5"
    assert reasons.pop(("NV", "Reno")) == reasons.pop(("NV", None)) == "one class, 1, in all 9 rows to train on"
    assert reasons.pop(("NV", "Elko")) == "no complete row (null in 'a': 6)"
    assert set(reasons.values()) == {None}
    la = groups["CA", "LA"]
    assert (la["rows"], la["held_out"], la["status"], la["scored_on"]) == (30, 10, "finished", "validation")
    assert groups[None, None]["rows"] + groups[None, None]["held_out"] == 128
    # A rate of 0 learns nothing.
    assert {groups[key]["params"] for key in [("CA", "LA"), ("NY", "NY"), (None, None)]} == {'{"lr": 0.5}'}


def test_rows_go_to_the_model_of_their_group_or_of_the_nearest_above(
    fitted: tuple[GroupedSearch, GroupedModel], spark: SparkSession, tmp_path: Path
) -> None:
    model = fitted[1]
    rows = [
        ("CA", "LA", 1.0, 0.0),
        ("NY", "NY", 1.0, 0.0),
        ("NY", "Troy", 1.0, 0.0),
        ("CA", "unseen", 1.0, 0.0),
        ("TX", None, 1.0, 0.0),
        ("NV", "Reno", 1.0, 0.0),
        (None, "LA", 1.0, 0.0),
        ("CA", "LA", None, 0.0),
    ]
    df = spark.createDataFrame(rows, "state string, city string, a double, b double")
    model.save(str(tmp_path / "model"))
    loaded = GroupedModel.load(str(tmp_path / "model"))
    answers = [row.asDict() for row in loaded.transform(df).collect()]
    assert [row["model"] for row in answers] == [
        *("state=CA, city=LA", "state=NY, city=NY", "state=NY", "state=CA", "state=TX", "global", "global", None)
    ]
    # The labels of the two states are opposite.
    assert [row["prediction"] for row in answers[:4]] == [1.0, 0.0, 0.0, 1.0]
    assert answers[7]["prediction"] is None
    assert answers[7]["rawPrediction"] is None
    assert [row["rawPrediction"] for row in model.transform(df).collect()] == [row["rawPrediction"] for row in answers]
    assert loaded.groups.count() == 11
    assert loaded.explain() == model.explain()
    assert "11 groups: 7 finished, 4 skipped" in model.explain()


def test_overwriting_a_loaded_model_keeps_its_files(
    fitted: tuple[GroupedSearch, GroupedModel], spark: SparkSession, tmp_path: Path
) -> None:
    path = str(tmp_path / "folder" / "model")
    fitted[1].save(path)
    loaded = GroupedModel.load(path)
    loaded.setModelCol("answer").write().overwrite().save(path)
    again = GroupedModel.load(path)
    row = spark.createDataFrame([("CA", "LA", 1.0, 0.0)], "state string, city string, a double, b double")
    assert [each.transform(row).collect()[0]["answer"] for each in (loaded, again)] == ["state=CA, city=LA"] * 2
    assert again.groups.count() == 11
    with pytest.raises(InvalidArgumentError, match="path must not contain the files that the model reads"):
        loaded.write().overwrite().save(str(tmp_path / "folder"))
    assert GroupedModel.load(path).groups.count() == 11


def test_resume_trains_the_work_items_that_are_missing(fitted: tuple[GroupedSearch, GroupedModel]) -> None:
    made, model = fitted
    before = {row["key"]: row["metric"] for row in model._table.collect() if row["configuration"] == 0}
    folder = ("grouped", "first", "groups")
    items = made.store.list(*folder)
    kept = made.store.read(*folder, items[-1])
    made.store.delete(*folder, items[0])
    data = load_grouped(made.store, made.store.list("prepared")[0])
    with pytest.raises(RunError, match="run_id must name a new run, got 'first'"):
        made.fit(data, run_id="first")
    with pytest.raises(RunError, match="got other values of epochs"):
        replace(made, num_epochs=3).fit(data, run_id="first", if_begun="resume")
    resumed = made.fit(data, run_id="first", if_begun="resume")
    assert made.store.list(*folder) == items
    assert made.store.read(*folder, items[-1]) == kept, "a finished item was trained again"
    after = {row["key"]: row["metric"] for row in resumed._table.collect() if row["configuration"] == 0}
    assert after == pytest.approx(before)


def test_columns_that_are_no_keys(spark: SparkSession, store: Store) -> None:
    df = spark.createDataFrame(table().assign(price=1.5))
    for names, message in [
        (["price"], "got 'price' of double. Cast or bin it first"),
        (["stat"], "got 'stat'; did you mean 'state'"),
    ]:
        with pytest.raises(ColumnError, match=message):
            search(spark, store, group_by=names).prepare(df)
    with pytest.raises(InvalidArgumentError, match="makes 134 groups of 128 rows, none with 2 complete rows"):
        search(spark, store, group_by=["number"]).prepare(
            spark.createDataFrame(table().assign(number=lambda rows: range(len(rows))))
        )
    for wrong in ("state", [], ["state", "state"], ["Level"]):
        with pytest.raises(InvalidArgumentError, match="group_by must"):
            search(spark, store, group_by=wrong)


def test_equal_rows_are_held_out_at_random(spark: SparkSession, tmp_path: Path) -> None:
    """By their content alone, the rows held out of two different ones would all be equal."""
    rows = pd.DataFrame({"state": "CA", "city": "LA", "a": [0.0, 1.0] * 60, "b": 0.0, "label": [0, 1] * 60})
    made = search(spark, Store.from_uri(str(tmp_path)), group_by=["state"], fallback_rows=20)
    data = made.prepare(spark.createDataFrame(rows).repartition(3))
    groups = [group for chunk in data.chunks for group in read_groups(data, chunk)]
    assert {group.key for group in groups} == {"[]", '["CA"]'}
    for group in groups:
        assert set(group.held_out.inputs[0][:, 0]) == {0.0, 1.0}, group.key


def test_data_of_other_groups_are_refused(fitted: tuple[GroupedSearch, GroupedModel], spark: SparkSession) -> None:
    made, _ = fitted
    data = made.prepare(spark.createDataFrame(table()))
    with pytest.raises(InvalidArgumentError, match="data must be prepared for groups by state, got state, city"):
        replace(made, group_by=["state"]).fit(data)
