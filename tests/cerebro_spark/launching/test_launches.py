"""Launches over the REST API: schema, plan, search, drill-down, and what is refused before Spark trains."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("fastapi")
pytest.importorskip("sqlalchemy")
pytest.importorskip("torch")

import numpy as np
import pandas as pd
import searches
from live_server import TOKEN, live_server
from waiting import until

from cerebro_spark import SparkBackend, Store
from cerebro_spark.builtin import ModelSource
from cerebro_spark.hopper import Journal
from cerebro_spark.launching import LAUNCH, LAUNCH_HANDLERS, _search, resume_launches
from cerebro_spark.launching._launched import launch_record, write_record
from cerebro_spark.steering import Client, ServerError
from cerebro_spark.steering.runner import Pool
from optimizer.errors import CerebroError, InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

SPACE = {"lr": {"kind": "choice", "values": [0.01, 0.001]}, "hidden": {"kind": "fixed", "value": 8}}


def load_source(source: dict[str, Any], document: dict[str, Any], context: Any) -> ModelSource:
    """Return the model of a test, whatever the source."""
    return ModelSource(
        trainer_fn=searches.trainer,
        search_space={"lr": [0.1, 0.01, 0.001], "hidden": [4, 8]},
        settings={"metric": "accuracy", "feature_columns": searches.FEATURES, "num_epochs": 1},
    )


@pytest.fixture(scope="module")
def table(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("table") / "adult.parquet"
    pd.DataFrame(searches.adult(spark, 300).toPandas()).to_parquet(path)
    return str(path)


@pytest.fixture(scope="module")
def pool(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pool]:
    folder = tmp_path_factory.mktemp("pool")
    with pytest.MonkeyPatch.context() as patch, live_server(folder / "server.sqlite") as url:
        patch.setenv("CEREBRO_TOKEN", TOKEN)
        patch.setattr(_search, "load_source", load_source)
        backend = SparkBackend(spark, num_workers=2, threads=1)
        with Pool(backend, Store.from_uri(str(folder / "store")), name="p1", handlers=LAUNCH_HANDLERS) as pool:
            yield pool.serve(url)


@pytest.fixture(scope="module")
def client(pool: Pool) -> Client:
    client = Client(pool.server, TOKEN)
    until(lambda: any(each["is_live"] for each in client.pools()))
    return client


def ask(client: Client, kind: str, document: dict[str, Any]) -> dict[str, Any]:
    return client.wait_for(client.request(kind, document)["id"], 120)


def result(client: Client, kind: str, document: dict[str, Any]) -> Any:
    record = ask(client, kind, document)
    assert record["state"] == "done", record["message"]
    return record["result"]


def launch_document(table: str, **changes: Any) -> dict[str, Any]:
    usual = {"run": "first", "procedure": "grid", "table": table, "source": {"builtin": "net"}, "search_space": SPACE}
    return {**usual, "label_columns": ["label"], "settings": {"num_epochs": 2, "seed": 5}, **changes}


def test_a_search_and_its_drill_down_train_in_one_pool(client: Client, pool: Pool, table: str) -> None:
    schema = result(client, "schema", {"table": table})
    assert schema["rows"] == 300 and schema["columns"][0] == {"name": "age", "type": "double", "nullable": True}
    document = launch_document(table, description="<b>two rates</b>")
    plan = result(client, "plan", {**document, "run": None})
    assert (plan["configurations"], plan["epochs"], plan["seconds"]) == (2, 4, None)
    assert plan["text"].startswith("Listed: 2 configurations, 4 epochs in all, at most 2 each")
    assert result(client, "launch", document) == {"run": "first"}
    settings = client.experiment("first")
    assert (settings["pool"], settings["description"], settings["parent"]) == ("p1", "<b>two rates</b>", "")
    assert (settings["search_space"], settings["source"]) == (SPACE, {"builtin": "net"})
    assert (settings["feature_columns"], settings["label_columns"]) == (searches.FEATURES, ["label"])
    # The first search need not be over.
    drill = {
        "run": "second",
        "procedure": "random",
        "source": {"run": "first"},
        "search_space": {"lr": {"kind": "loguniform", "low": 1e-3, "high": 1e-2}},
        "settings": {"num_configurations": 2, "num_epochs": 1},
    }
    assert result(client, "launch", drill) == {"run": "second"}
    selections = [pool.searches[run].experiment.wait(120) for run in ("first", "second")]
    assert [len(each.trials) for each in selections] == [2, 2]
    first, second = (Journal(pool.store, run).spec() for run in ("first", "second"))
    assert first.prepared == second.prepared and second.procedure == "RandomSearch"
    assert all(trial.params["hidden"] == 8 and 1e-3 <= trial.params["lr"] <= 1e-2 for trial in selections[1].trials)
    assert client.experiment("second")["parent"] == "first"
    again = result(client, "plan", drill | {"run": "third"})
    assert again["seconds"] > 0 and "from the units of a similar search" in again["text"]
    # Exactly one run of the name.
    with pytest.raises(ServerError, match="run must be a new name, got 'first'"):
        client.request("launch", document)


def test_labels_of_strings_are_numbered_alike_in_a_drill_down_and_after_a_restart(
    client: Client, pool: Pool, table: str, tmp_path: Path
) -> None:
    path, other = tmp_path / "named.parquet", tmp_path / "numbers.parquet"
    rows = pd.read_parquet(table)
    numbers = rows["label"].astype("Int64").where(rows.index > 1)
    rows.assign(label=numbers).to_parquet(other)
    named = rows.assign(label=numbers.map({0: "no", 1: "yes"}))
    named.to_parquet(path)
    document = launch_document(str(path), run="named", settings={"num_epochs": 1, "seed": 5})
    assert "labels: 0 = no, 1 = yes" in result(client, "plan", document)["text"]
    left_out = {"null in 'label'": 2}
    assert result(client, "launch", document) == {"run": "named", "left_out": left_out}
    pool.searches["named"].experiment.wait(120)
    settings = client.experiment("named")
    assert (settings["labels"], settings["left_out"]) == ({"label": ["no", "yes"]}, left_out)
    # The same shards as those of a table with numbers.
    result(client, "launch", launch_document(str(other), run="numbers", settings={"num_epochs": 1, "seed": 5}))
    pool.searches["numbers"].experiment.wait(120)
    first, second = (Journal(pool.store, run).spec().prepared for run in ("named", "numbers"))
    assert first == second and client.experiment("numbers")["labels"] == {}
    # Another class would be the first one by now.
    named.assign(label="a").to_parquet(path)
    for _ in ("the running pool", "another process"):
        drill = {"run": "drill", "source": {"run": "named"}, "settings": {"num_epochs": 1}}
        assert "labels: 0 = no, 1 = yes" in result(client, "plan", drill)["text"]
        pool.searches.pop("named", None)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"table": "missing.parquet"}, "there is no such file or folder"),
        ({"label_columns": ["labl"]}, "got 'labl'; did you mean 'label'"),
        ({"feature_columns": ["age", "Age "]}, "got 'Age '"),
        ({"label_columns": []}, "label_columns must name the columns to predict, got none"),
        ({"procedure": "grib"}, "did you mean 'grid'"),
        ({"settings": {"num_epoch": 2}}, r"settings must be those of GridSearch \(.*, got 'num_epoch'; did you mean"),
        ({"settings": {"num_epochs": 0}}, "num_epochs must be a positive integer"),
        ({"settings": {"backend": 1}}, "got 'backend'"),
        ({"settings": {"eta": 3}}, "got 'eta'"),
        ({"procedure": "asha", "settings": {}}, "settings must have .*max_epochs.* for ASHA"),
        ({"search_space": {"width": SPACE["lr"]}}, "got 'width'"),
        ({"search_space": {"lr": {"kind": "loguniform", "low": 1e-3, "high": 1e-2}}}, "have a step for a grid"),
        ({"source": {"run": "unknown"}}, "must be a search that this pool has launched"),
        ({"run": "a/b"}, "the name of a run"),
    ],
)
def test_what_is_wrong_is_told_before_anything_trains(
    client: Client, pool: Pool, table: str, changes: dict[str, Any], message: str
) -> None:
    before = pool.store.list("runs")
    for kind in ("plan", "launch"):
        record = ask(client, kind, {**launch_document(table), "run": "wrong", **changes})
        assert record["state"] == "failed" and re.search(message, record["message"]), record["message"]
    assert pool.store.list("runs") == before


def test_a_runner_that_starts_again_continues_its_searches(
    client: Client, pool: Pool, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    document = launch_document(table, run="whole", settings={"num_epochs": 4, "schedule": "fixed", "seed": 5})
    result(client, "launch", document)
    whole = pool.searches["whole"].experiment.wait(120)
    with searches.disk_full_after(2, monkeypatch):
        sent = client.request("launch", {**document, "run": "broken"})
        assert client.wait_for(sent["id"], 120)["state"] == "done"
        with pytest.raises(CerebroError):
            pool.searches["broken"].experiment.wait(120)
    # The process of the runner is killed: another one has the store alone.
    pool.searches.clear()
    record = launch_record(pool.store, "broken")
    assert record is not None and (record["request"], record["pool"]) == (sent["id"], "p1")
    write_record(pool.store, "broken", {**record, "ended": False})
    resume_launches(pool)
    assert list(pool.searches) == ["broken"]
    expected, continued = searches.states(whole), searches.states(pool.searches["broken"].experiment.wait(120))
    for trial, state in expected.items():
        for name, value in state.items():
            np.testing.assert_array_equal(continued[trial][name], value)
    # The request of the launch again is the same run, and another request of its name is refused.
    context = pool.context()
    with pytest.raises(InvalidArgumentError, match="run must be a new name, got 'broken'"):
        LAUNCH.handle({**document, "run": "broken"}, context)
    context.id = sent["id"]
    assert LAUNCH.handle({**document, "run": "broken"}, context) == {"run": "broken"}
    assert {"broken", "first", "second", "whole"} <= set(pool.store.list("runs"))


def test_a_launch_that_does_not_begin_leaves_its_name_free(client: Client, pool: Pool, table: str) -> None:
    document = launch_document(table, run="later", settings={"metric": "unknown"})
    failed = ask(client, "launch", document)
    assert failed["state"] == "failed" and "unknown" in failed["message"]
    assert launch_record(pool.store, "later") is None and not Journal(pool.store, "later").begun


def test_a_table_without_rows_to_train_on_is_explained(client: Client, table: str, tmp_path: Path) -> None:
    path = tmp_path / "empty.parquet"
    pd.read_parquet(table).assign(label=np.nan).to_parquet(path)
    failed = ask(client, "launch", launch_document(str(path), run="empty"))
    assert failed["message"] == "table must have rows to train on, got none (null in 'label': 300 rows)."


def test_a_trainer_that_fails_is_refused_before_the_shards_are_prepared(
    client: Client, pool: Pool, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(params: dict[str, Any]) -> None:
        raise CerebroError("the weights are not there")

    before = pool.store.list("prepared")
    monkeypatch.setattr(searches, "trainer", broken)
    changed = launch_document(table, run="broken-trainer", settings={"num_epochs": 1, "test_fraction": 0.3})
    failed = ask(client, "launch", changed)
    assert failed["state"] == "failed" and "the weights are not there" in failed["message"]
    assert pool.store.list("prepared") == before


def test_a_launch_whose_trainer_never_returns_is_cancelled(
    client: Client, pool: Pool, table: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    began, ended = tmp_path / "began", tmp_path / "ended"

    def endless(params: dict[str, Any]) -> None:
        began.touch()
        try:
            while True:
                time.sleep(0.05)
        finally:
            ended.touch()

    with monkeypatch.context() as patch:
        patch.setattr(searches, "trainer", endless)
        sent = client.request("launch", launch_document(table, run="endless"))
        until(began.exists)
    waiting = client.request("launch", launch_document(table, run="behind"))
    client.cancel(sent["id"])
    record = client.wait_for(waiting["id"], 120)
    assert record["state"] == "done", record["message"]
    assert ended.exists() and launch_record(pool.store, "endless") is None
    pool.searches["behind"].experiment.wait(120)
