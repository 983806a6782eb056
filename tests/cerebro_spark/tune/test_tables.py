"""A run's record as tables, while it goes on and after it."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

import pytest

torch = pytest.importorskip("torch")

from searches import adult, search

from cerebro_spark import Store
from cerebro_spark.errors import RunError
from cerebro_spark.tune import TABLES, run_tables
from udfs.documents import DamagedError

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession


def test_tables_hold_all_that_happened_and_join(spark: SparkSession, tmp_path: Path) -> None:
    store = Store.from_uri(str(tmp_path))
    task = search(spark, store, num_epochs=40, search_space={"lr": [0.01, 0.001], "hidden": [8]})
    experiment = task.start(task.prepare(adult(spark, 400)), run_id="told")
    added = experiment.add({"lr": 0.1, "hidden": 4}, epochs=2)
    while sum(len(trial.history) for trial in experiment.trials) < 8:
        time.sleep(0.05)
    meanwhile = run_tables(store, "told")
    assert {name: list(table.columns) for name, table in meanwhile.items()} == {
        name: list(columns) for name, columns in TABLES.items()
    }
    assert set(meanwhile["configurations"].trial_id) == {"c000", "c001", added}
    assert len(meanwhile["metrics"]), "they are written as they happen"
    experiment.end()
    found = experiment.wait()

    tables = found.tables()
    assert tables["experiments"].iloc[0][["procedure", "metric", "mode", "seed"]].tolist() == [
        "GridSearch",
        "val_accuracy",
        "max",
        5,
    ]
    for trial in found.trials:
        of = {name: table[table.trial_id == trial.trial_id] for name, table in tables.items() if "trial_id" in table}
        assert {row["name"]: json.loads(row["value"]) for _, row in of["params"].iterrows()} == trial.params
        (row,) = of["configurations"].to_dict("records")
        assert (row["status"], row["reason"], row["epochs"]) == (trial.status, trial.reason, len(trial.history))
        logged = {(int(row["epoch"]), row["name"]): row["value"] for _, row in of["metrics"].iterrows()}
        assert logged == {
            (epoch, name): value for epoch, metrics in enumerate(trial.history) for name, value in metrics.items()
        }
        trained = of["units"][of["units"].kind == "train"]
        assert set(zip(trained.epoch, trained.partition, strict=True)) >= set(trial.visits)
        last = of["states"].iloc[-1]
        assert (last["epoch"], last["partition"]) == trial.visits[last["version"] - 1]
    for uri in [*tables["states"].uri, *tables["artifacts"].uri]:
        assert (tmp_path / uri.partition(f"{tmp_path}/")[2]).exists(), uri
    said = tables["decisions"]
    assert list(said[said.trial_id == added].decision) == ["start", "stop"]
    for name, table in tables.items():
        spark.createDataFrame(table).createOrReplaceTempView(name)
    rows = spark.sql(
        "select c.trial_id, max(m.value) best from configurations c join metrics m using (run_id, trial_id) "
        "where m.name = 'val_accuracy' group by c.trial_id"
    ).collect()
    assert {row["trial_id"]: row["best"] for row in rows} == {
        trial.trial_id: max(metrics["val_accuracy"] for metrics in trial.history)
        for trial in found.trials
        if trial.history
    }


def test_tables_of_no_run_and_of_a_damaged_one(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="no run 'none'"):
        run_tables(Store.from_uri(str(tmp_path)), "none")
    (tmp_path / "runs" / "torn").mkdir(parents=True)
    (tmp_path / "runs" / "torn" / "run.json").write_text("{")
    with pytest.raises((RunError, DamagedError), match="damaged"):
        run_tables(Store.from_uri(str(tmp_path)), "torn")
