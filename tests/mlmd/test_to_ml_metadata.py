"""A run's record goes to a real ML Metadata store, and its lineage is read there."""

from __future__ import annotations

import json
import subprocess
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

torch = pytest.importorskip("torch")

from places import EXAMPLES, ROOT
from searches import FEATURES, adult, trainer
from sessions import CONNECT

from cerebro_spark import PBT, SparkBackend, Store
from cerebro_spark.cli import app
from optimizer.space import log_uniform

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from cerebro_spark import Selection

PYTHON = ROOT / ".venv-mlmd" / "bin" / "python"

pytestmark = [
    pytest.mark.mlmd,
    pytest.mark.skipif(not PYTHON.exists(), reason="make mlmd-test builds .venv-mlmd"),
    pytest.mark.skipif(CONNECT, reason="the record is the same on Connect"),
]

Graph = dict[str, Any]
DECIMALS = partial(pytest.approx, abs=1e-6)


def python(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([PYTHON, *map(str, arguments)], capture_output=True, text=True, check=False)


def write(folder: Path, store: Path) -> str:
    done = python(EXAMPLES / "to_ml_metadata.py", folder, "--sqlite", store)
    assert done.returncode == 0, done.stderr
    return done.stdout


def graph(store: Path) -> Graph:
    done = python(Path(__file__).with_name("read_graph.py"), store)
    assert done.returncode == 0, done.stderr
    found: Graph = json.loads(done.stdout)
    return found


def export(store: Path, run: str, out: Path, form: str = "parquet") -> Path:
    done = CliRunner().invoke(app, ["tables", str(store), run, "--out", str(out), "--format", form])
    assert done.exit_code == 0, done.output
    return out


def population(spark: SparkSession, store: Path) -> PBT:
    return PBT(
        backend=SparkBackend(spark, num_workers=2, threads=1),
        store=Store.from_uri(str(store)),
        trainer_fn=trainer,
        search_space={"lr": log_uniform(1e-5, 1e-1), "hidden": 8},
        population=4,
        num_epochs=3,
        only=["lr"],
        feature_columns=FEATURES,
        label_columns=["label"],
        metric="accuracy",
        progress=False,
        seed=3,
    )


@pytest.fixture(scope="module")
def run(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Selection]:
    store = tmp_path_factory.mktemp("store")
    return store, population(spark, store).fit(adult(spark, 400))


@pytest.mark.parametrize("form", ["parquet", "csv"])
def test_the_graph_has_what_the_run_did(run: tuple[Path, Selection], tmp_path: Path, form: str) -> None:
    store, found = run
    write(export(store, found.run_id, tmp_path / "record", form), tmp_path / "metadata.db")
    told = graph(tmp_path / "metadata.db")
    (experiment,) = told["contexts"]
    assert (experiment["name"], experiment["procedure"], experiment["mode"]) == (found.run_id, "PBT", "max")
    configurations = {each["name"]: each for each in told["executions"] if each["type"] == "cerebro.Configuration"}
    for trial in found.trials:
        known = configurations.pop(f"{found.run_id}/{trial.trial_id}")
        assert (float(known["lr"]), known["hidden"], known["state"]) == (trial.params["lr"], 8, "COMPLETE")
        measured = {
            each["epoch"]: each["val_accuracy"]
            for each in told["artifacts"]
            if each["type"] == "cerebro.Metrics" and each["trial_id"] == trial.trial_id
        }
        assert measured == {epoch: DECIMALS(values["val_accuracy"]) for epoch, values in enumerate(trial.history)}
    assert not configurations
    units = [each for each in told["executions"] if each["type"] == "cerebro.Unit"]
    assert len(units) == len(found.outcome.events)
    states = [each for each in told["artifacts"] if each["type"] == "cerebro.State" and each["state"] == "LIVE"]
    assert sorted(each["uri"] for each in states) == sorted(found.tables()["states"].uri)
    written = {state for execution, state, way in told["events"] if way == "OUTPUT" and "/train/" in execution}
    assert written == {each["name"] for each in states}, "each state is the output of the unit that it followed"
    assert told["members"][found.run_id] == [len(told["executions"]), len(told["artifacts"])]


def test_lineage_leads_from_a_clone_to_its_source(run: tuple[Path, Selection], tmp_path: Path) -> None:
    store, found = run
    write(export(store, found.run_id, tmp_path / "record"), tmp_path / "metadata.db")
    told = graph(tmp_path / "metadata.db")
    clones = {trial.trial_id: trial.source for trial in found.trials if trial.source is not None}
    assert clones
    for trial_id, source in clones.items():
        inputs = [
            thing
            for execution, thing, way in told["events"]
            if execution == f"{found.run_id}/{trial_id}" and way == "INPUT" and "/state/" in thing
        ]
        assert inputs == [f"{found.run_id}/{source.trial_id}/state/{2 * source.epoch}"], "two shards make an epoch"
        assert [f"{found.run_id}/{source.trial_id}", inputs[0], "OUTPUT"] in told["events"]


def test_what_is_written_twice_is_there_once(run: tuple[Path, Selection], tmp_path: Path) -> None:
    store, found = run
    record = export(store, found.run_id, tmp_path / "record")
    first = write(record, tmp_path / "metadata.db")
    before = graph(tmp_path / "metadata.db")
    assert write(record, tmp_path / "metadata.db") == first
    assert graph(tmp_path / "metadata.db") == before


def test_two_runs_share_their_data(spark: SparkSession, run: tuple[Path, Selection], tmp_path: Path) -> None:
    store, found = run
    another = population(spark, store).fit(found.prepared)
    for each in (found, another):
        write(export(store, each.run_id, tmp_path / each.run_id), tmp_path / "metadata.db")
    told = graph(tmp_path / "metadata.db")
    assert {each["name"] for each in told["contexts"]} == {found.run_id, another.run_id}
    assert sum(each["type"] == "cerebro.Data" for each in told["artifacts"]) == 1
    assert all(count for counts in told["members"].values() for count in counts)


def test_a_folder_without_a_table_and_a_run_of_other_data_are_refused(
    spark: SparkSession, run: tuple[Path, Selection], tmp_path: Path
) -> None:
    store, found = run
    record = export(store, found.run_id, tmp_path / "record")
    write(record, tmp_path / "metadata.db")
    population(spark, tmp_path / "other").fit(adult(spark, 200), run_id=found.run_id)
    other = export(tmp_path / "other", found.run_id, tmp_path / "others")
    done = python(EXAMPLES / "to_ml_metadata.py", other, "--sqlite", tmp_path / "metadata.db")
    assert done.returncode == 1
    assert f"another experiment '{found.run_id}'" in done.stderr
    (record / "units.parquet").unlink()
    done = python(EXAMPLES / "to_ml_metadata.py", record, "--sqlite", tmp_path / "metadata.db")
    assert done.returncode == 1
    assert "has no units.parquet: write it with cerebro tables" in done.stderr
